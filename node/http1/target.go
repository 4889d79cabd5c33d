package http1

import (
	"net/netip"
	"strings"
)

// splitTarget takes a request target apart into the request's Target, RawQuery
// and, for the absolute form, Host. It takes the origin, absolute and asterisk
// forms of RFC 9112 section 3.2; nothing here is a proxy, so the authority form
// is refused.
func splitTarget(req *Request, raw string) bool {
	if raw == "*" {
		req.Target = raw
		return req.Method == "OPTIONS"
	}
	if raw == "" || !all(raw, isTarget) {
		return false
	}
	if raw[0] != '/' {
		var ok bool
		if raw, ok = splitAbsolute(req, raw); !ok {
			return false
		}
	}
	req.Target = raw
	if i := strings.IndexByte(raw, '?'); i >= 0 {
		req.Target, req.RawQuery, req.HasQuery = raw[:i], raw[i+1:], true
	}
	if req.Target == "" {
		req.Target = "/"
	}
	return validEscapes(req.Target)
}

// splitAbsolute takes the scheme and the authority off an absolute target. The
// authority takes the place of the Host field (RFC 9112 section 3.2.2).
func splitAbsolute(req *Request, raw string) (rest string, ok bool) {
	scheme, rest, ok := strings.Cut(raw, "://")
	if !ok || !strings.EqualFold(scheme, "http") && !strings.EqualFold(scheme, "https") {
		return "", false
	}
	end := strings.IndexAny(rest, "/?")
	if end < 0 {
		end = len(rest)
	}
	if !validAuthority(rest[:end]) {
		return "", false
	}
	req.Host = rest[:end]
	return rest[end:], true
}

func validAuthority(a string) bool {
	host, port := a, ""
	if i := strings.LastIndexByte(a, ':'); i >= 0 && !strings.HasSuffix(a, "]") {
		host, port = a[:i], a[i+1:]
		if port == "" || len(port) > 5 || !all(port, isDigit) {
			return false
		}
	}
	if strings.HasPrefix(host, "[") && strings.HasSuffix(host, "]") {
		ip, err := netip.ParseAddr(host[1 : len(host)-1])
		return err == nil && ip.Is6() && ip.Zone() == ""
	}
	return host != "" && all(host, isReg)
}

func validEscapes(s string) bool {
	for i := 0; i < len(s); i++ {
		if s[i] != '%' {
			continue
		}
		if i+2 >= len(s) || class[s[i+1]]&isHex == 0 || class[s[i+2]]&isHex == 0 {
			return false
		}
		i += 2
	}
	return true
}
