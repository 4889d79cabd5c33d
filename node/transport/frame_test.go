package transport

import (
	"bytes"
	"encoding/binary"
	"errors"
	"hash/crc32"
	"io"
	"net"
	"os"
	"path/filepath"
	"runtime"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"go.etcd.io/etcd/raft/v3/raftpb"
	"pgregory.net/rapid"
)

var testEnvelope = envelope{Cluster: 0x1122334455667788, Sender: 7, Clock: 1_700_000_000_123, Count: 0}

// encodeFrame packs whole messages and parts into one frame.
func encodeFrame(t testing.TB, e envelope, msgs []Message, parts ...part) []byte {
	t.Helper()
	b := beginFrame(nil)
	for i := range msgs {
		var err error
		if b, err = appendWhole(b, &msgs[i], msgs[i].Raft.Size()); err != nil {
			t.Fatal(err)
		}
	}
	for _, p := range parts {
		b = appendPart(b, p)
	}
	e.Count = uint32(len(msgs) + len(parts))
	sealFrame(b, e)
	return b
}

func decodeFrame(b []byte, asm *assembler) (envelope, []Message, error) {
	if len(b) < prefixBytes {
		return envelope{}, nil, io.ErrUnexpectedEOF
	}
	n, sum, err := parsePrefix(b)
	if err != nil {
		return envelope{}, nil, err
	}
	if len(b) < prefixBytes+n {
		return envelope{}, nil, io.ErrUnexpectedEOF
	}
	e, items, err := parseEnvelope(b[prefixBytes:prefixBytes+n], sum)
	if err != nil {
		return e, nil, err
	}
	msgs, err := decodeItems(e, items, asm)
	return e, msgs, err
}

// reseal makes a tampered frame's checksum right again.
func reseal(b []byte) []byte {
	binary.LittleEndian.PutUint32(b[4:], crc32.Checksum(b[prefixBytes:], castagnoli))
	return b
}

func TestAFrameIsWrittenAsTheFormatPageSays(t *testing.T) {
	m := Message{Group: 5, LossEpoch: 2, Raft: raftpb.Message{Type: raftpb.MsgHeartbeat, To: 2, From: 1, Term: 3, Commit: 9}}
	got := encodeFrame(t, testEnvelope, []Message{m})
	golden := filepath.Join("testdata", "frame.golden")
	want, err := os.ReadFile(golden)
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(got, want) {
		t.Errorf("the frame changed; that needs a new protocol version\n got %x\nwant %x", got, want)
	}
	hello := greeting{Version: 1, Code: uint8(kindBeat), From: 1, To: 2, Clock: 1_700_000_000_123, Cluster: "test"}.encode(helloMagic)
	want, err = os.ReadFile(filepath.Join("testdata", "hello.golden"))
	if err != nil {
		t.Fatal(err)
	}
	if !bytes.Equal(hello, want) {
		t.Errorf("the greeting changed; that needs a new protocol version\n got %x\nwant %x", hello, want)
	}
	if got, want := Fingerprint("test"), uint64(0x657d4c8881d0869f); got != want {
		t.Errorf("Fingerprint = %#x, want %#x", got, want)
	}
}

func TestAFrameCarriesWhatWasSent(t *testing.T) {
	types := []raftpb.MessageType{raftpb.MsgApp, raftpb.MsgAppResp, raftpb.MsgVote, raftpb.MsgVoteResp, raftpb.MsgPreVote,
		raftpb.MsgPreVoteResp, raftpb.MsgHeartbeat, raftpb.MsgHeartbeatResp, raftpb.MsgReadIndex, raftpb.MsgReadIndexResp,
		raftpb.MsgTransferLeader, raftpb.MsgTimeoutNow}
	rapid.Check(t, func(rt *rapid.T) {
		u64 := rapid.Uint64()
		sent := rapid.SliceOfN(rapid.Custom(func(rt *rapid.T) Message {
			m := Message{Group: rapid.Uint32().Draw(rt, "group"), LossEpoch: rapid.Uint32().Draw(rt, "epoch")}
			m.Raft = raftpb.Message{
				Type: rapid.SampledFrom(types).Draw(rt, "type"), To: u64.Draw(rt, "to"), From: u64.Draw(rt, "from"),
				Term: u64.Draw(rt, "term"), LogTerm: u64.Draw(rt, "logterm"), Index: u64.Draw(rt, "index"), Commit: u64.Draw(rt, "commit"),
				Reject: rapid.Bool().Draw(rt, "reject"), RejectHint: u64.Draw(rt, "hint"),
			}
			for range rapid.IntRange(0, 5).Draw(rt, "entries") {
				m.Raft.Entries = append(m.Raft.Entries, raftpb.Entry{
					Term: u64.Draw(rt, "eterm"), Index: u64.Draw(rt, "eindex"),
					Data: append([]byte{1}, rapid.SliceOfN(rapid.Byte(), 0, 100).Draw(rt, "data")...),
				})
			}
			return m
		}), 0, 20).Draw(rt, "messages")
		e, got, err := decodeFrame(encodeFrame(t, testEnvelope, sent), &assembler{limit: DefaultMaxMessage})
		if err != nil {
			rt.Fatal(err)
		}
		if e.Cluster != testEnvelope.Cluster || e.Sender != testEnvelope.Sender || e.Clock != testEnvelope.Clock {
			rt.Fatalf("envelope %+v", e)
		}
		if len(sent) == 0 {
			sent = nil
		}
		if diff := cmp.Diff(sent, got); diff != "" {
			rt.Fatal(diff)
		}
	})
}

func TestABadFrameIsRefused(t *testing.T) {
	good := func() []byte { return encodeFrame(t, testEnvelope, []Message{heartbeat(1, 2)}) }
	withLength := func(b []byte, n uint32) []byte { binary.LittleEndian.PutUint32(b, n); return b }
	typed := func(mt raftpb.MessageType) []byte {
		return encodeFrame(t, testEnvelope, []Message{{Raft: raftpb.Message{Type: mt}}})
	}
	emptyEntries := func(n int) []byte {
		m := heartbeat(1, 2)
		raw, err := m.Raft.Marshal()
		if err != nil {
			t.Fatal(err)
		}
		raw = append(raw, bytes.Repeat([]byte{0x3a, 0x00}, n)...)
		b := append(beginFrame(nil), formWhole)
		b = append(b, make([]byte, 8)...)
		b = binary.LittleEndian.AppendUint32(b, uint32(len(raw)))
		b = append(b, raw...)
		e := testEnvelope
		e.Count = 1
		sealFrame(b, e)
		return b
	}
	for name, frame := range map[string][]byte{
		"shorter than an envelope":                withLength(good(), envelopeBytes-1),
		"longer than allowed":                     withLength(good(), maxBody+1),
		"absurdly long":                           withLength(good(), 1<<32-1),
		"one bit flipped in the payload":          func() []byte { b := good(); b[len(b)-1] ^= 1; return b }(),
		"one bit flipped in the envelope":         func() []byte { b := good(); b[prefixBytes] ^= 1; return b }(),
		"more items claimed than can be there":    func() []byte { b := good(); b[32] = 200; return reseal(b) }(),
		"one item more than there is":             func() []byte { b := good(); b[32] = 2; return reseal(b) }(),
		"one item fewer than there is":            func() []byte { b := good(); b[32] = 0; return reseal(b) }(),
		"unknown form":                            func() []byte { b := good(); b[frameHead] = 3; return reseal(b) }(),
		"item longer than its frame":              func() []byte { b := good(); b[frameHead+9]++; return reseal(b) }(),
		"item shorter than its message":           func() []byte { b := good(); b[frameHead+9]--; return reseal(b) }(),
		"a local message (hup)":                   typed(raftpb.MsgHup),
		"a local message (unreachable)":           typed(raftpb.MsgUnreachable),
		"a forwarded proposal":                    typed(raftpb.MsgProp),
		"a message type that does not exist":      typed(99),
		"a flood of empty entries":                emptyEntries(1000),
		"a part that begins in the middle":        encodeFrame(t, testEnvelope, nil, part{Total: maxWhole + 1, Offset: 5, Bytes: []byte{1}}),
		"a part of a message that is small":       encodeFrame(t, testEnvelope, nil, part{Total: 5, Bytes: []byte{1, 2, 3, 4, 5}}),
		"a part of a message beyond the limit":    encodeFrame(t, testEnvelope, nil, part{Total: 1 << 31, Bytes: make([]byte, maxPart)}),
		"a first part that is not full":           encodeFrame(t, testEnvelope, nil, part{Total: maxWhole + 1, Bytes: make([]byte, 10)}),
		"a part that does not continue the first": encodeFrame(t, testEnvelope, nil, part{Total: maxWhole + 1, Bytes: make([]byte, maxPart)}, part{Total: maxWhole + 2, Offset: maxPart, Bytes: make([]byte, 64<<10+2)}),
	} {
		t.Run(name, func(t *testing.T) {
			_, _, err := decodeFrame(frame, &assembler{limit: DefaultMaxMessage})
			if !errors.Is(err, ErrProtocol) {
				t.Errorf("err = %v, want ErrProtocol", err)
			}
		})
	}
}

func TestAMessageMayBeFullOfSmallestEntries(t *testing.T) {
	m := appendOf(1, 1, 0)
	m.Raft.Entries = make([]raftpb.Entry, 10_000)
	_, got, err := decodeFrame(encodeFrame(t, testEnvelope, []Message{m}), &assembler{limit: DefaultMaxMessage})
	if err != nil || len(got) != 1 || len(got[0].Raft.Entries) != 10_000 {
		t.Errorf("%d messages, err %v", len(got), err)
	}
}

func TestADecodedMessageDoesNotAliasItsFrame(t *testing.T) {
	b := encodeFrame(t, testEnvelope, []Message{appendOf(1, 7, 100)})
	_, got, err := decodeFrame(b, &assembler{limit: DefaultMaxMessage})
	if err != nil {
		t.Fatal(err)
	}
	for i := range b {
		b[i] = 0xff
	}
	if diff := cmp.Diff(appendOf(1, 7, 100), got[0]); diff != "" {
		t.Error(diff)
	}
}

func TestEncodingAHeartbeatFrameAllocatesNothing(t *testing.T) {
	m := heartbeat(1, 2)
	buf := make([]byte, 0, 4096)
	size := m.Raft.Size()
	allocs := testing.AllocsPerRun(100, func() {
		b := beginFrame(buf)
		for range 16 {
			b, _ = appendWhole(b, &m, size)
		}
		sealFrame(b, testEnvelope)
	})
	if allocs != 0 {
		t.Errorf("%v allocations", allocs)
	}
}

// readAll runs a connection's reader over b until it ends or refuses.
func readAll(b []byte, limit int) (msgs []Message, err error) {
	here, there := net.Pipe()
	defer here.Close()
	go func() {
		_, _ = there.Write(b)
		there.Close()
	}()
	tr := &Transport{cfg: Config{MaxMessage: limit}, timing: timing{body: patience}, fingerprint: testEnvelope.Cluster}
	r := tr.newReader(here, testEnvelope.Sender, patience)
	for {
		_, got, _, err := r.next()
		if err != nil {
			return msgs, err
		}
		msgs = append(msgs, got...)
	}
}

func TestAReaderRefusesFramesOfOtherSenders(t *testing.T) {
	other := testEnvelope
	other.Cluster++
	if _, err := readAll(encodeFrame(t, other, nil), DefaultMaxMessage); !errors.Is(err, ErrWrongCluster) {
		t.Errorf("err = %v, want ErrWrongCluster", err)
	}
	other = testEnvelope
	other.Sender++
	if _, err := readAll(encodeFrame(t, other, nil), DefaultMaxMessage); !errors.Is(err, ErrWrongNode) {
		t.Errorf("err = %v, want ErrWrongNode", err)
	}
}

func TestAReaderDoesNotAllocateForAClaimedLength(t *testing.T) {
	claim := make([]byte, prefixBytes)
	binary.LittleEndian.PutUint32(claim, 1<<31)
	var before, after runtime.MemStats
	runtime.ReadMemStats(&before)
	for range 100 {
		if _, err := readAll(claim, DefaultMaxMessage); !errors.Is(err, ErrProtocol) {
			t.Fatalf("err = %v", err)
		}
	}
	runtime.ReadMemStats(&after)
	if grown := after.TotalAlloc - before.TotalAlloc; grown > 32<<20 {
		t.Errorf("100 refused frames allocated %d bytes", grown)
	}
}

func TestAFrameThatDoesNotEndIsCut(t *testing.T) {
	here, there := net.Pipe()
	defer here.Close()
	defer there.Close()
	go func() { _, _ = there.Write(encodeFrame(t, testEnvelope, []Message{heartbeat(1, 2)})[:20]) }()
	tr := &Transport{cfg: Config{MaxMessage: DefaultMaxMessage}, timing: timing{body: 50 * time.Millisecond}, fingerprint: testEnvelope.Cluster}
	_, _, _, err := tr.newReader(here, testEnvelope.Sender, patience).next()
	if !errors.Is(err, os.ErrDeadlineExceeded) {
		t.Errorf("err = %v, want a deadline", err)
	}
}

func FuzzFrame(f *testing.F) {
	f.Add(encodeFrame(f, testEnvelope, nil))
	f.Add(encodeFrame(f, testEnvelope, []Message{heartbeat(1, 2), appendOf(3, 4, 50)}))
	big := encodeFrame(f, testEnvelope, []Message{heartbeat(1, 2)}, part{Group: 9, Total: maxWhole + 9, Bytes: []byte("short")})
	f.Add(big)
	f.Fuzz(func(t *testing.T, b []byte) {
		// The checksum would keep the fuzzer out of everything behind it.
		if len(b) >= frameHead {
			b = bytes.Clone(b)
			binary.LittleEndian.PutUint32(b, uint32(len(b)-prefixBytes))
			reseal(b)
		}
		asm := &assembler{limit: 4 << 20}
		e, msgs, err := decodeFrame(b, asm)
		if err != nil {
			return
		}
		if asm.buf != nil {
			return
		}
		again, got, err := decodeFrame(encodeFrame(t, e, msgs), &assembler{limit: 4 << 20})
		if err != nil {
			t.Fatalf("what was decoded does not decode again: %v", err)
		}
		if again.Clock != e.Clock || len(got) != len(msgs) {
			t.Fatalf("%+v with %d messages became %+v with %d", e, len(msgs), again, len(got))
		}
	})
}

func FuzzGreeting(f *testing.F) {
	f.Add(greeting{Version: 1, Code: 2, From: 3, To: 4, Clock: 5, Cluster: "test"}.encode(helloMagic))
	f.Add([]byte("GET / HTTP/1.1\r\nHost: x\r\n\r\n"))
	f.Fuzz(func(t *testing.T, b []byte) {
		g, err := readGreeting(bytes.NewReader(b), helloMagic)
		if err != nil {
			return
		}
		again, err := readGreeting(bytes.NewReader(g.encode(helloMagic)), helloMagic)
		if err != nil || again != g {
			t.Fatalf("%+v became %+v, %v", g, again, err)
		}
	})
}
