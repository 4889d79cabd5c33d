package conformance

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"strings"
	"testing"
	"time"
)

const (
	runDeadline = 5 * time.Minute
	// testTimeout replaces vitest's 5 s, which a busy machine exceeds. It is the
	// suite's only check of the default long-poll time, which is not its to test.
	testTimeout = "--testTimeout=20000"
)

// Run runs the suite against the server at baseURL (http://host:port, without a
// path) and fails t for every result that differs from expected_failures.txt.
// It takes about a minute, and the network the first time.
func Run(t testing.TB, baseURL string) {
	t.Helper()
	list, err := parseList(expectedFailures)
	if err != nil {
		t.Fatal(err)
	}
	dir, err := install(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	results, err := runSuite(t.Context(), dir, filepath.Join(t.TempDir(), "report.json"), baseURL)
	if err != nil {
		t.Fatal(err)
	}
	for _, problem := range compare(list, results) {
		t.Error(problem)
	}
	t.Logf("conformance: %d tests, %d not expected to pass", len(results), len(list))
}

// result is what one test of the suite came to. Its number is its place in the
// suite, from 1.
type result struct {
	name    string
	status  string
	failure string
}

const (
	statusPassed = "passed"
	statusFailed = "failed"
)

func runSuite(ctx context.Context, dir, report, baseURL string) ([]result, error) {
	ctx, cancel := context.WithTimeout(ctx, runDeadline)
	defer cancel()
	vitest := exec.CommandContext(ctx, "node", "node_modules/vitest/vitest.mjs", "run", "conformance.test.mjs",
		"--no-coverage", "--no-cache", testTimeout, "--reporter=json", "--outputFile="+report)
	vitest.Dir = dir
	vitest.Env = append(os.Environ(), "RUNNEL_CONFORMANCE_URL="+baseURL, "NO_COLOR=1")
	vitest.WaitDelay = time.Second
	out, runErr := vitest.CombinedOutput()
	if ctx.Err() != nil {
		return nil, fmt.Errorf("the conformance suite did not end within %v\n%s", runDeadline, out)
	}
	// Failed tests make vitest exit with 1; only a missing report is an error.
	data, err := os.ReadFile(report)
	if err != nil {
		return nil, fmt.Errorf("vitest left no report: %w\n%s", errors.Join(runErr, err), out)
	}
	return parseReport(data)
}

func parseReport(data []byte) ([]result, error) {
	var report struct {
		TestResults []struct {
			Message          string
			AssertionResults []struct {
				AncestorTitles  []string
				Title           string
				Status          string
				FailureMessages []string
			}
		}
	}
	if err := json.Unmarshal(data, &report); err != nil {
		return nil, fmt.Errorf("parse vitest's report: %w", err)
	}
	if len(report.TestResults) != 1 {
		return nil, fmt.Errorf("vitest reports %d test files, want 1", len(report.TestResults))
	}
	file := report.TestResults[0]
	if len(file.AssertionResults) == 0 {
		return nil, fmt.Errorf("vitest ran no test: %s", file.Message)
	}
	results := make([]result, 0, len(file.AssertionResults))
	for _, a := range file.AssertionResults {
		results = append(results, result{
			name:    strings.Join(append(a.AncestorTitles, a.Title), " > "),
			status:  a.Status,
			failure: headOf(strings.Join(a.FailureMessages, "\n"), 3),
		})
	}
	return results, nil
}

// headOf returns the first lines of a failure: the rest is a stack trace.
func headOf(text string, lines int) string {
	parts := strings.SplitN(text, "\n", lines+1)
	if len(parts) > lines {
		parts = parts[:lines]
	}
	return strings.Join(parts, "\n")
}
