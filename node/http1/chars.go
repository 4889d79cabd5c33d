package http1

// Character classes of RFC 9110 and RFC 3986, as bits of one table.
const (
	isToken  uint8 = 1 << iota // field names and methods: tchar
	isValue                    // field values: VCHAR, obs-text, SP, HTAB
	isTarget                   // request targets: visible ASCII without '#'
	isHost                     // authorities: unreserved, sub-delims, '%', ':', '[', ']'
	isReg                      // the registered names this server takes in an absolute target
	isHex
	isDigit
)

var class = buildClasses()

func buildClasses() (t [256]uint8) {
	set := func(bit uint8, chars string) {
		for i := 0; i < len(chars); i++ {
			t[chars[i]] |= bit
		}
	}
	const (
		digits = "0123456789"
		alnum  = digits + "abcdefghijklmnopqrstuvwxyzABCDEFGHIJKLMNOPQRSTUVWXYZ"
	)
	set(isToken, alnum+"!#$%&'*+-.^_`|~")
	set(isHost, alnum+"-._~!$&'()*+,;=%:[]")
	set(isReg, alnum+"-._~")
	set(isHex, digits+"abcdefABCDEF")
	set(isDigit, digits)
	for c := 0x20; c < 0x100; c++ {
		if c != 0x7f {
			t[c] |= isValue
		}
		if c > 0x20 && c < 0x7f && c != '#' {
			t[c] |= isTarget
		}
	}
	t['\t'] |= isValue
	return t
}

// all tells whether every byte of s is in the class.
func all(s string, bit uint8) bool {
	for i := 0; i < len(s); i++ {
		if class[s[i]]&bit == 0 {
			return false
		}
	}
	return true
}

func trimOWS(s string) string {
	for len(s) > 0 && (s[0] == ' ' || s[0] == '\t') {
		s = s[1:]
	}
	for len(s) > 0 && (s[len(s)-1] == ' ' || s[len(s)-1] == '\t') {
		s = s[:len(s)-1]
	}
	return s
}
