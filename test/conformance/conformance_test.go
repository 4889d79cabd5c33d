package conformance

import (
	"os"
	"path/filepath"
	"strings"
	"testing"
)

func TestTheListIsTheReviewedOne(t *testing.T) {
	list, err := parseList(expectedFailures)
	if err != nil {
		t.Fatal(err)
	}
	// The list may only shrink: lower the bounds with it.
	classes := map[string]int{"json": 0, "fork": 0, "off": 0}
	for number, e := range list {
		switch {
		case e.off:
			classes["off"]++
		case strings.HasPrefix(e.name, "Fork - ") && number >= 251:
			classes["fork"]++
		default:
			classes["json"]++
		}
	}
	for class, most := range map[string]int{"json": 21, "fork": 72, "off": 6} {
		if classes[class] > most {
			t.Errorf("%d tests of class %s are expected to fail, at most %d were", classes[class], class, most)
		}
	}
}

func TestParseListRefusesWhatGivesNoReason(t *testing.T) {
	for name, text := range map[string]string{
		"an entry outside a section":     "1 a",
		"a section without a reason":     "[a]\n1 a",
		"a section without a bracket":    "[a why\n1 a",
		"an entry without a number":      "[a] why\nname",
		"an entry without a name":        "[a] why\n1",
		"an entry twice":                 "[a] why\n1 a\n[b] why\n1 a",
		"entries out of order":           "[a] why\n2 a\n1 b",
		"a number that the suite lacks":  "[a] why\n339 a",
		"a number that is none of tests": "[a] why\n0 a",
	} {
		if list, err := parseList(text); err == nil {
			t.Errorf("%s is accepted: %v", name, list)
		}
	}
}

// run is a full run of the suite in which every test passes, but for changes.
func run(changes map[int]result) []result {
	results := make([]result, suiteTests)
	for i := range results {
		results[i] = result{name: "t", status: statusPassed}
		if r, ok := changes[i+1]; ok {
			results[i] = r
		}
	}
	return results
}

func TestCompareFindsEveryDifference(t *testing.T) {
	list, err := parseList("[a] why\n3 three\n[off] why\n5 five")
	if err != nil {
		t.Fatal(err)
	}
	const skipped = "skipped"
	asListed := map[int]result{3: {"three", statusFailed, ""}, 5: {"five", skipped, ""}}
	with := func(number int, r result) []result {
		changes := map[int]result{number: r}
		for n, r := range asListed {
			if n != number {
				changes[n] = r
			}
		}
		return run(changes)
	}
	tests := []struct {
		name    string
		results []result
		want    string
	}{
		{"a run as listed", run(asListed), ""},
		{"a new failure", with(7, result{"seven", statusFailed, "expected 1"}), "test 7 \"seven\" fails\nexpected 1"},
		{"a test that did not run", with(7, result{"seven", skipped, ""}), `test 7 "seven" did not run: skipped`},
		{"an expected failure that passes", with(3, result{"three", statusPassed, ""}), "remove it from expected_failures.txt"},
		{"an expected failure that did not run", with(3, result{"three", skipped, ""}), "does not expect"},
		{"a test that is off and runs", with(5, result{"five", statusPassed, ""}), "remove it from expected_failures.txt"},
		{"a test that is off and fails", with(5, result{"five", statusFailed, ""}), "does not expect"},
		{"another test under a listed number", with(3, result{"other", statusFailed, ""}), "review the list"},
		{"a suite that lost tests", run(asListed)[:337], "the suite has 337 tests"},
	}
	for _, tt := range tests {
		t.Run(tt.name, func(t *testing.T) {
			problems := strings.Join(compare(list, tt.results), "\n")
			if !strings.Contains(problems, tt.want) || (tt.want == "") != (problems == "") {
				t.Errorf("got %q", problems)
			}
		})
	}
	if problems := compare(list, run(asListed)[:4]); len(problems) != 2 {
		t.Errorf("a listed test that is gone: %q", problems)
	}
}

func TestParseReport(t *testing.T) {
	results, err := parseReport([]byte(`{"testResults":[{"assertionResults":[
		{"ancestorTitles":["A","B"],"title":"works","status":"passed","failureMessages":[]},
		{"ancestorTitles":[],"title":"fails","status":"failed","failureMessages":["l1\nl2\nl3\nl4"]}]}]}`))
	if err != nil {
		t.Fatal(err)
	}
	want := []result{{"A > B > works", statusPassed, ""}, {"fails", statusFailed, "l1\nl2\nl3"}}
	if len(results) != 2 || results[0] != want[0] || results[1] != want[1] {
		t.Errorf("got %+v", results)
	}
	for name, report := range map[string]string{
		"no file": `{"testResults":[]}`, "no test": `{"testResults":[{"message":"syntax error","assertionResults":[]}]}`, "no JSON": `x`,
	} {
		if _, err := parseReport([]byte(report)); err == nil {
			t.Errorf("a report with %s is accepted", name)
		}
	}
}

func TestRewriteKnowsItsSuite(t *testing.T) {
	line := "fetch(`${url}/v1/stream/x`, `/v1/stream/y`)\n"
	out, err := rewrite([]byte(strings.Repeat(line, suitePaths)))
	if err != nil || strings.Contains(string(out), "/v1/") || strings.Count(string(out), "/conf/") != 2*suitePaths {
		t.Errorf("rewritten badly, %v", err)
	}
	if _, err := rewrite([]byte(line)); err == nil {
		t.Error("an unknown suite is rewritten")
	}
}

func TestTheLockFileNamesNoRegistry(t *testing.T) {
	lock, err := files.ReadFile("suite/package-lock.json")
	if err != nil {
		t.Fatal(err)
	}
	for _, word := range []string{`"resolved"`, "registry.npmjs.org"} {
		if strings.Contains(string(lock), word) {
			t.Errorf("the lock file holds %s: run npm install in suite/ with its .npmrc", word)
		}
	}
}

func TestMissingNodeIsSaidPlainly(t *testing.T) {
	empty := t.TempDir()
	t.Setenv("PATH", empty)
	if err := checkNode(t.Context()); err == nil || !strings.Contains(err.Error(), "install Node.js") {
		t.Errorf("without node: %v", err)
	}
	script := "#!/bin/sh\necho v18.19.0\n"
	for _, tool := range []string{"node", "npm"} {
		if err := os.WriteFile(filepath.Join(empty, tool), []byte(script), 0o755); err != nil {
			t.Fatal(err)
		}
	}
	if err := checkNode(t.Context()); err == nil || !strings.Contains(err.Error(), "Node.js 18.19.0") {
		t.Errorf("with an old node: %v", err)
	}
}
