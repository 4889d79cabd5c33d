package conformance

import (
	_ "embed"
	"fmt"
	"strconv"
	"strings"
)

//go:embed expected_failures.txt
var expectedFailures string

// suiteTests is how many tests the pinned suite has, those included that its
// options turn off.
const suiteTests = 338

// entry is a test that is not expected to pass.
type entry struct {
	number int
	name   string
	// off marks a test that an option of the suite turns off: it must not run.
	off bool
}

// parseList reads expected_failures.txt: comments (#), sections in brackets,
// each with its reason on the same line, and below them a test's number and
// full name a line.
func parseList(text string) (map[int]entry, error) {
	list := map[int]entry{}
	section, last := "", 0
	for i, line := range strings.Split(text, "\n") {
		line = strings.TrimSpace(line)
		bad := func(why string) error { return fmt.Errorf("expected_failures.txt:%d: %s", i+1, why) }
		switch {
		case line == "" || line[0] == '#':
		case line[0] == '[':
			name, reason, ok := strings.Cut(line[1:], "]")
			if !ok || name == "" || strings.TrimSpace(reason) == "" {
				return nil, bad("a section is [name] and its reason")
			}
			section, last = name, 0
		default:
			digits, name, _ := strings.Cut(line, " ")
			number, err := strconv.Atoi(digits)
			if err != nil || name == "" || number > suiteTests {
				return nil, bad("an entry is the number and the full name of a test")
			}
			if section == "" {
				return nil, bad("an entry stands in a section that gives its reason")
			}
			if _, twice := list[number]; twice || number <= last {
				return nil, bad("entries of a section rise in number, each once")
			}
			list[number] = entry{number: number, name: name, off: section == "off"}
			last = number
		}
	}
	return list, nil
}

// compare returns what differs between the list and a run, a line each.
func compare(list map[int]entry, results []result) (problems []string) {
	add := func(format string, args ...any) { problems = append(problems, fmt.Sprintf(format, args...)) }
	if len(results) != suiteTests {
		add("the suite has %d tests, want %d: it changed, review it and the list", len(results), suiteTests)
	}
	for i, r := range results {
		number := i + 1
		e, listed := list[number]
		switch {
		case listed && e.name != r.name:
			add("test %d is %q, but the list has %q there: review the list", number, r.name, e.name)
		case listed && r.status == statusPassed:
			add("test %d %q passes: remove it from expected_failures.txt", number, r.name)
		case listed && e.off == (r.status == statusFailed):
			add("test %d %q is %s, which its section of expected_failures.txt does not expect\n%s", number, r.name, r.status, r.failure)
		case !listed && r.status == statusFailed:
			add("test %d %q fails\n%s", number, r.name, r.failure)
		case !listed && r.status != statusPassed:
			add("test %d %q did not run: %s", number, r.name, r.status)
		}
	}
	for number, e := range list {
		if number > len(results) {
			add("test %d %q of the list is not in the suite", number, e.name)
		}
	}
	return problems
}
