package protocol

import "testing"

func TestAnETagTellsIncarnationRangeAndClosureApart(t *testing.T) {
	tag := func(incarnation uint64, start, end Offset, closed bool) string {
		return string(AppendETag(nil, incarnation, start, end, closed))
	}
	if got, want := tag(0x1f, 10, 200, false), `"1f-10-200"`; got != want {
		t.Errorf("got %s, want %s", got, want)
	}
	tags := map[string]bool{
		tag(1, 2, 3, false): true, tag(1, 2, 3, true): true, tag(1, 2, 4, false): true, tag(1, 1, 3, false): true,
		tag(2, 2, 3, false): true, tag(12, 3, 0, false): true, tag(1, 23, 0, false): true,
	}
	if len(tags) != 7 {
		t.Errorf("tags collide: %v", tags)
	}
}

func TestMatchETag(t *testing.T) {
	const tag = `"1f-10-200"`
	tests := []struct {
		name   string
		values []string
		want   bool
	}{
		{"absent", nil, false},
		{"verbatim", []string{tag}, true},
		{"row 128: weak", []string{"W/" + tag}, true},
		{"row 128: in a list", []string{`"a", W/` + tag + ` , "b"`}, true},
		{"row 128: a star", []string{"*"}, true},
		{"a star in whitespace", []string{" * "}, true},
		{"in the second header", []string{`"a"`, tag}, true},
		{"without spaces", []string{`"a",` + tag}, true},
		{"empty members", []string{`,, "a",,` + tag}, true},
		{"a comma inside another tag", []string{`"a,b", ` + tag}, true},
		{"inside another tag", []string{`"x` + tag + `"`}, false},
		{"another", []string{`"1f-10-201"`}, false},
		{"without quotes", []string{"1f-10-200"}, false},
		{"a star in a list", []string{`"a", *`}, false},
		{"a lower-case weakness", []string{"w/" + tag}, false},
		{"no closing quote", []string{`"1f-10-200`}, false},
		{"text behind the tag", []string{tag + "x"}, false},
		{"two tags without a comma", []string{`"a" ` + tag}, false},
		{"empty", []string{""}, false},
		{"only commas", []string{", ,"}, false},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			if got := MatchETag(tt.values, tag); got != tt.want {
				t.Errorf("got %v", got)
			}
			if got := MatchETag(tt.values, "W/"+tag); got != tt.want {
				t.Errorf("the weak tag gives %v", got)
			}
		})
	}
}

func FuzzMatchETag(f *testing.F) {
	for _, s := range []string{`*`, `"a"`, `W/"a", "b"`, `"a,b",,"`, `W/`, `"`} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, s string) {
		const tag = `"1f-10-200"`
		// Nothing a client sends may hide a tag that stands before it or in
		// another header.
		if !MatchETag([]string{s, tag}, tag) {
			t.Fatalf("%q hides the next header", s)
		}
		if !MatchETag([]string{tag + "," + s}, tag) {
			t.Fatalf("%q hides the tag before it", s)
		}
	})
}
