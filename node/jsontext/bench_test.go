package jsontext

import (
	"bytes"
	"encoding/json"
	"fmt"
	"testing"
)

func corpora() map[string][]byte {
	event := `{"id":"018f2c1e-77aa-7c3e","type":"insert","key":"user:4711","value":{"name":"Ada","age":36,"tags":["a","b"],"score":12.5,"ok":true},"headers":{"txid":123456}}`
	var pretty bytes.Buffer
	if err := json.Indent(&pretty, []byte(event), "", "  "); err != nil {
		panic(err)
	}
	batch := []byte("[")
	for i := range 1000 {
		if i > 0 {
			batch = append(batch, ',')
		}
		batch = append(batch, event...)
	}
	return map[string][]byte{
		"event": []byte(event), "pretty": pretty.Bytes(), "batch": append(batch, ']'),
		"text":    fmt.Appendf(nil, "%q", bytes.Repeat([]byte("lorem ipsum dolor sit amet "), 400)),
		"unicode": fmt.Appendf(nil, `"%s"`, bytes.Repeat([]byte("日本語のテキスト"), 400)),
	}
}

func BenchmarkNormalize(b *testing.B) {
	for name, body := range corpora() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var buf []byte
			for b.Loop() {
				out, _, err := Normalize(buf[:0], body)
				if err != nil {
					b.Fatal(err)
				}
				buf = out
			}
		})
	}
}

// BenchmarkEncodingJSON is what the standard library takes for half of the
// work: Valid and Compact, without flattening, depth and UTF-8.
func BenchmarkEncodingJSON(b *testing.B) {
	for name, body := range corpora() {
		b.Run(name, func(b *testing.B) {
			b.SetBytes(int64(len(body)))
			b.ReportAllocs()
			var buf bytes.Buffer
			for b.Loop() {
				buf.Reset()
				if !json.Valid(body) || json.Compact(&buf, body) != nil {
					b.Fatal("invalid")
				}
			}
		})
	}
}
