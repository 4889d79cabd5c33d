package stream

import (
	"encoding/hex"
	"flag"
	"fmt"
	"os"
	"slices"
	"strings"
	"testing"

	"github.com/google/go-cmp/cmp"
)

var update = flag.Bool("update", false, "rewrite testdata/formats.golden and the fuzzers' seeds")

func digestOf(fill byte) Digest {
	return withDigest(by(Command{}, "", 0, 0), fill).Producer.Digest
}

// commandSamples have every field of every kind, set and unset.
func commandSamples() map[string]Command {
	long := strings.Repeat("x", 200)
	return map[string]Command{
		"create":          {Kind: KindCreate, Key: key("s"), ContentType: "text/plain"},
		"create, TTL 0":   {Kind: KindCreate, Key: key("s"), ContentType: "text/plain", Expiry: Expiry{HasTTL: true}},
		"create, all":     {Kind: KindCreate, Key: key("s"), ContentType: "application/json", Expiry: Expiry{TTL: 3600, HasTTL: true}, Close: true, Messages: 2, Payload: []byte("1\n2\n")},
		"create, dated":   {Kind: KindCreate, Key: key("s"), ContentType: "text/plain", Expiry: Expiry{At: 1_893_456_000_000, AtText: "2030-01-01T00:00:00Z"}},
		"create, past":    {Kind: KindCreate, Key: key("s"), ContentType: "text/plain", Expiry: Expiry{AtText: "1969-01-01T00:00:00Z"}},
		"append":          {Kind: KindAppend, Key: key("s"), MediaType: "text/plain", Payload: []byte("hello")},
		"append, all":     {Kind: KindAppend, Key: key("s"), MediaType: "application/json", Close: true, Seq: "7", Producer: &ProducerKey{ID: "p", Epoch: 3, Seq: 300, Digest: digestOf(0xab)}, Messages: 1, Payload: []byte("{}\n")},
		"append, fault":   {Kind: KindAppend, Key: key("s"), MediaType: "application/json", Producer: &ProducerKey{ID: "p"}, Fault: FaultInvalidJSON},
		"append, zeros":   {Kind: KindAppend, Key: key("s"), MediaType: "text/plain", Producer: &ProducerKey{}, Payload: []byte("x")},
		"append, long":    {Kind: KindAppend, Key: Key{Bucket: "demo", Stream: long}, MediaType: "text/plain", Seq: long, Payload: []byte("x")},
		"close":           {Kind: KindAppend, Key: key("s"), Close: true},
		"delete":          {Kind: KindDelete, Key: key("s")},
		"touch":           {Kind: KindTouch, IDs: []ID{1, 300, 1 << 40}},
		"touch, nothing":  {Kind: KindTouch},
		"expire":          {Kind: KindExpire, IDs: []ID{2}},
		"not UTF-8 names": {Kind: KindDelete, Key: Key{Bucket: "\xff", Stream: "\x00"}},
	}
}

func groupSamples() map[string]Group {
	return map[string]Group{
		"group":      {Time: 1_700_000_000_123, LastCreated: 1_700_000_000_124, LastID: 9, Histories: []uint64{testHistory, 2}},
		"group, new": {Histories: []uint64{testHistory}},
		"no history": {},
	}
}

func streamSamples() map[string]Stream {
	return map[string]Stream{
		"stream": {ID: 7, Key: key("s"), ContentType: "text/plain", Created: 1_700_000_000_000, Tail: 5, Touched: 1_700_000_000_500},
		"stream, all": {ID: 1 << 40, Key: key("s"), ContentType: "application/json", Created: 1, Tail: 1 << 52, Retained: 300, Closed: true,
			Expiry: Expiry{TTL: 60, HasTTL: true, At: 5, AtText: "t"}, Touched: 2, Seq: "7", Written: 3, Predecessor: &Predecessor{History: 1, Tail: 200}, Floor: 4, HasFloor: true, Producers: 4096},
		"stream, zeros": {Expiry: Expiry{HasTTL: true}, Predecessor: &Predecessor{}, HasFloor: true},
		"nothing":       {},
	}
}

func producerSamples() map[string]Producer {
	return map[string]Producer{
		"producer": {Epoch: 1, Seq: 2, Newest: Receipt{Start: 3, End: 4}, LastWrite: 1_700_000_000_000},
		"producer, all": {Epoch: 1, Seq: 300, Newest: Receipt{Start: 3, End: 400, Closed: true, Digest: digestOf(1)}, Claim: digestOf(2), ClaimHistory: 3,
			ClosedEpoch: 0, ClosedSeq: 6, HasClosed: true, OpenedBelowFloor: true, LastWrite: 8},
		"producer, claim only": {Claim: digestOf(2)},
		"nothing":              {},
	}
}

// A change of a stored form shows here. Bytes of released versions stay
// readable for ever, so a changed line needs a new version, not an update.
func TestStoredFormsStayAsTheyAre(t *testing.T) {
	var lines []string
	add := func(kind, name string, b []byte) {
		lines = append(lines, fmt.Sprintf("%s/%s: %s", kind, name, hex.EncodeToString(b)))
		if *update {
			writeSeed(t, kind, name, b)
		}
	}
	for name, c := range commandSamples() {
		add("command", name, append(AppendHeader(nil, &c), c.Payload...))
	}
	for name, g := range groupSamples() {
		add("group", name, AppendGroup(nil, &g))
	}
	for name, s := range streamSamples() {
		add("stream", name, AppendStream(nil, &s))
	}
	for name, p := range producerSamples() {
		add("producer", name, AppendProducer(nil, &p))
	}
	if *update {
		for name, c := range refusedCommands() {
			writeSeed(t, "command", "refused "+name, c.b)
		}
	}
	slices.Sort(lines)
	got := strings.Join(lines, "\n") + "\n"
	const path = "testdata/formats.golden"
	if *update {
		if err := os.WriteFile(path, []byte(got), 0o644); err != nil {
			t.Fatal(err)
		}
	}
	want, err := os.ReadFile(path)
	if err != nil {
		t.Fatal(err)
	}
	if diff := cmp.Diff(string(want), got); diff != "" {
		t.Fatalf("stored forms changed (-want +got):\n%s", diff)
	}
}

// writeSeed adds b to the committed corpus of the fuzzer of its kind.
func writeSeed(t *testing.T, kind, name string, b []byte) {
	t.Helper()
	dir := "testdata/fuzz/FuzzDecode" + strings.ToUpper(kind[:1]) + kind[1:]
	if err := os.MkdirAll(dir, 0o755); err != nil {
		t.Fatal(err)
	}
	name = strings.NewReplacer(" ", "-", ",", "").Replace(name)
	seed := fmt.Sprintf("go test fuzz v1\n[]byte(%q)\n", b)
	if err := os.WriteFile(dir+"/"+name, []byte(seed), 0o644); err != nil {
		t.Fatal(err)
	}
}
