package http1

import "strings"

// Field is one header field.
type Field struct {
	Name, Value string
}

// Header is a list of fields in the order they came. Names compare without
// regard to case. The zero Header is empty.
type Header struct {
	fields []Field
}

// NewHeader returns a header of the given fields.
func NewHeader(fields ...Field) Header { return Header{fields: fields} }

// Get returns the first value of name, "" when there is none.
func (h Header) Get(name string) string {
	v, _ := h.Lookup(name)
	return v
}

// Lookup returns the first value of name and whether there is one.
func (h Header) Lookup(name string) (string, bool) {
	for i := range h.fields {
		if sameName(h.fields[i].Name, name) {
			return h.fields[i].Value, true
		}
	}
	return "", false
}

// Has tells whether a field of that name came.
func (h Header) Has(name string) bool {
	_, ok := h.Lookup(name)
	return ok
}

// Count returns the number of fields of that name.
func (h Header) Count(name string) int {
	n := 0
	for i := range h.fields {
		if sameName(h.fields[i].Name, name) {
			n++
		}
	}
	return n
}

// Values returns the values of name in order, nil when there is none.
func (h Header) Values(name string) []string {
	var vs []string
	for i := range h.fields {
		if sameName(h.fields[i].Name, name) {
			vs = append(vs, h.fields[i].Value)
		}
	}
	return vs
}

// Len returns the number of fields.
func (h Header) Len() int { return len(h.fields) }

// At returns the i-th field.
func (h Header) At(i int) Field { return h.fields[i] }

func sameName(a, b string) bool {
	return len(a) == len(b) && (a == b || strings.EqualFold(a, b))
}

// Block is a set of answer fields encoded once, for fields that are the same
// on many answers.
type Block struct {
	fields []Field
	wire   []byte
}

// NewBlock encodes the fields.
func NewBlock(fields ...Field) *Block {
	b := &Block{fields: fields}
	for _, f := range fields {
		b.wire = appendField(b.wire, f.Name, f.Value)
	}
	return b
}

func appendField(dst []byte, name, value string) []byte {
	dst = append(dst, name...)
	dst = append(dst, ": "...)
	dst = appendFieldValue(dst, value)
	return append(dst, '\r', '\n')
}

// appendFieldValue keeps a value from ending its line: what a handler echoes
// must not become a field or an answer of its own.
func appendFieldValue(dst []byte, value string) []byte {
	start := len(dst)
	dst = append(dst, value...)
	for i := start; i < len(dst); i++ {
		if c := dst[i]; c == '\r' || c == '\n' || c == 0 {
			dst[i] = ' '
		}
	}
	return dst
}

// cleanValue is the string that appendFieldValue writes.
func cleanValue(value string) string {
	if !strings.ContainsAny(value, "\r\n\x00") {
		return value
	}
	return string(appendFieldValue(nil, value))
}
