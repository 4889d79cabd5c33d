package protocol

import (
	"strings"
	"testing"
	"unicode/utf8"
)

func TestValidBucket(t *testing.T) {
	for _, s := range []string{"demo", "a-_0", "----", "__ds", "conf", strings.Repeat("x", 64)} {
		if err := ValidBucket(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	// Rows 2 to 4, and what a lenient pattern would let through.
	for _, s := range []string{"", "v1", "abc", "Demo", "de.mo", strings.Repeat("x", 65), "dem o", "démo", "demo\n", "demo/", "dem\x00", "dem~"} {
		if code := codeOf(t, ValidBucket(s)); code != CodeInvalidBucketID {
			t.Errorf("%q: %q", s, code)
		}
	}
}

func TestValidStream(t *testing.T) {
	tests := []struct {
		name   string
		stream string
		code   Code
	}{
		{"an ordinary id", "hello", ""},
		{"one character", "x", ""},
		{"one dot", ".", ""},
		{"dots apart", "a.b.c", ""},
		{"punctuation and spaces", "a b?c#d%e", ""},
		{"row 6: streams", "streams", CodeInvalidStreamID},
		{"streams as a part", "streams2", ""},
		{"row 7: a dollar in front", "$tx", CodeInvalidStreamID},
		{"a dollar elsewhere", "t$x", ""},
		{"row 8: snapshot", "snapshot", ""},
		{"row 8: bootstrap", "bootstrap", ""},
		{"row 8: retention", "retention", ""},
		{"row 8: incarnation", "incarnation", ""},
		{"row 8: attrs", "attrs", ""},
		{"row 8: append-batch", "append-batch", ""},
		{"row 9: two dots", "a..b", CodeInvalidStreamID},
		{"only dots", "..", CodeInvalidStreamID},
		{"row 10: a slash", "a/b", CodeInvalidStreamID},
		{"row 10: a NUL", "a\x00b", CodeInvalidStreamID},
		{"row 11: not UTF-8", "\xff", CodeInvalidRequest},
		{"row 12: a key of 122 bytes", strings.Repeat("x", 117), ""},
		{"row 13: a key of 123 bytes", strings.Repeat("x", 118), CodeInvalidStreamID},
		{"row 14: 39 three-byte characters", strings.Repeat("日", 39), ""},
		{"row 14: 40 three-byte characters", strings.Repeat("日", 40), CodeInvalidStreamID},
		{"empty", "", CodeInvalidStreamID},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if code := codeOf(t, ValidStream("demo", tt.stream)); code != tt.code {
				t.Errorf("got %q", code)
			}
		})
	}
}

func TestALongBucketLeavesLessForTheStream(t *testing.T) {
	bucket := strings.Repeat("b", 64)
	if err := ValidStream(bucket, strings.Repeat("x", 57)); err != nil {
		t.Error(err)
	}
	if ValidStream(bucket, strings.Repeat("x", 58)) == nil {
		t.Error("a key of 123 bytes is accepted")
	}
}

func TestValidClusterID(t *testing.T) {
	for _, s := range []string{"a", "Prod.eu-west_1", strings.Repeat("9", 64)} {
		if err := ValidClusterID(s); err != nil {
			t.Errorf("%q: %v", s, err)
		}
	}
	for _, s := range []string{"", strings.Repeat("9", 65), "a b", "a/b", "a:b", "é"} {
		if ValidClusterID(s) == nil {
			t.Errorf("%q is accepted", s)
		}
	}
}

func FuzzValidKey(f *testing.F) {
	for _, s := range [][2]string{{"demo", "hello"}, {"abc", "x"}, {"demo", "a..b"}, {"demo", "$x"}, {"demo", "\xff"}, {"dEmo", "/"}} {
		f.Add(s[0], s[1])
	}
	f.Fuzz(func(t *testing.T, bucket, stream string) {
		if ValidBucket(bucket) != nil || ValidStream(bucket, stream) != nil {
			return
		}
		key := bucket + "/" + stream
		if len(key) > 122 || !utf8.ValidString(key) || strings.Count(key, "/") != 1 || strings.Contains(key, "..") || strings.ContainsRune(key, 0) {
			t.Fatalf("accepted %q", key)
		}
		if len(bucket) < 4 || strings.Trim(bucket, "abcdefghijklmnopqrstuvwxyz0123456789_-") != "" {
			t.Fatalf("accepted bucket %q", bucket)
		}
	})
}
