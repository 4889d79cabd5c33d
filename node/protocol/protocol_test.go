package protocol

import (
	"errors"
	"testing"
)

// codeOf is the code a refusal carries, "" for nil.
func codeOf(t *testing.T, err error) Code {
	t.Helper()
	if err == nil {
		return ""
	}
	var refused *Error
	if !errors.As(err, &refused) {
		t.Fatalf("error %v is no *Error", err)
	}
	if refused.Message == "" || refused.Code.Status() != 400 {
		t.Errorf("refusal %+v has no message or is no 400", refused)
	}
	return refused.Code
}

// valueTest is a case of a header that is kept as it was sent, or refused.
type valueTest struct {
	name   string
	values []string
	want   string
	code   Code
}

func checkValues(t *testing.T, parse func([]string) (string, error), tests []valueTest) {
	t.Helper()
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			got, err := parse(tt.values)
			if got != tt.want || codeOf(t, err) != tt.code {
				t.Errorf("got %q, %v", got, err)
			}
		})
	}
}
