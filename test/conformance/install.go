package conformance

import (
	"bytes"
	"context"
	"crypto/sha256"
	"embed"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"os/exec"
	"path/filepath"
	"strconv"
	"strings"
	"time"
)

const (
	installDeadline = 5 * time.Minute
	nodeMajor       = 20
	getNode         = "install Node.js 20 or newer with npm (https://nodejs.org, or the nodejs and npm packages of your distribution)"

	suitePackage = "node_modules/@durable-streams/server-conformance-tests/dist"
	suitePath    = "/v1/stream/"
	bucketPath   = "/conf/"
	// suitePaths is how often the pinned suite names suitePath: a rewrite that
	// finds another number has met another suite.
	suitePaths = 416
)

//go:embed suite/package.json suite/package-lock.json suite/.npmrc suite/conformance.test.mjs
var files embed.FS

// checkNode says what is missing of Node.js and npm, and how to get it.
func checkNode(ctx context.Context) error {
	for _, tool := range []string{"node", "npm"} {
		if _, err := exec.LookPath(tool); err != nil {
			return fmt.Errorf("the official conformance suite needs %s: %s", tool, getNode)
		}
	}
	out, err := exec.CommandContext(ctx, "node", "--version").Output()
	if err != nil {
		return fmt.Errorf("node --version: %w: %s", err, getNode)
	}
	version := strings.TrimPrefix(strings.TrimSpace(string(out)), "v")
	major, _, _ := strings.Cut(version, ".")
	if n, err := strconv.Atoi(major); err != nil || n < nodeMajor {
		return fmt.Errorf("the official conformance suite does not run on Node.js %s: %s", version, getNode)
	}
	return nil
}

// install returns the directory of the installed and rewritten suite, in the
// user's cache under a name derived from everything that went into it. A
// directory of that name is complete: it is renamed into place at the end.
func install(ctx context.Context) (string, error) {
	if err := checkNode(ctx); err != nil {
		return "", err
	}
	cache, err := os.UserCacheDir()
	if err != nil {
		return "", fmt.Errorf("find a cache directory for the conformance suite: %w", err)
	}
	sum, err := contentHash()
	if err != nil {
		return "", err
	}
	dir := filepath.Join(cache, "runnel", "conformance", sum)
	if _, err := os.Stat(dir); err == nil {
		return dir, nil
	}
	ctx, cancel := context.WithTimeout(ctx, installDeadline)
	defer cancel()
	if err := os.MkdirAll(filepath.Dir(dir), 0o755); err != nil {
		return "", err
	}
	staging, err := os.MkdirTemp(filepath.Dir(dir), "install-")
	if err != nil {
		return "", err
	}
	defer func() { _ = os.RemoveAll(staging) }()
	if err := populate(ctx, staging); err != nil {
		return "", err
	}
	// Another run may have been faster; its directory is as good.
	if err := os.Rename(staging, dir); err != nil && !errors.Is(err, fs.ErrExist) {
		if _, statErr := os.Stat(dir); statErr != nil {
			return "", err
		}
	}
	return dir, nil
}

func contentHash() (string, error) {
	content := fmt.Appendln(nil, suitePath, bucketPath)
	err := eachFile(func(name string, data []byte) error {
		content = append(fmt.Appendln(content, name, len(data)), data...)
		return nil
	})
	sum := sha256.Sum256(content)
	return hex.EncodeToString(sum[:8]), err
}

func eachFile(f func(name string, data []byte) error) error {
	entries, err := files.ReadDir("suite")
	if err != nil {
		return err
	}
	for _, e := range entries {
		data, err := files.ReadFile("suite/" + e.Name())
		if err != nil {
			return err
		}
		if err := f(e.Name(), data); err != nil {
			return err
		}
	}
	return nil
}

func populate(ctx context.Context, dir string) error {
	err := eachFile(func(name string, data []byte) error {
		return os.WriteFile(filepath.Join(dir, name), data, 0o644)
	})
	if err != nil {
		return err
	}
	npm := exec.CommandContext(ctx, "npm", "ci", "--ignore-scripts", "--no-audit", "--no-fund")
	npm.Dir = dir
	npm.WaitDelay = time.Second
	if out, err := npm.CombinedOutput(); err != nil {
		return fmt.Errorf("npm ci of the conformance suite: %w (does npm reach its registry?)\n%s", err, out)
	}
	built, err := filepath.Glob(filepath.Join(dir, suitePackage, "src-*.js"))
	if err != nil || len(built) != 1 {
		return fmt.Errorf("the conformance package holds %d built suites, want 1 (error: %v)", len(built), err)
	}
	source, err := os.ReadFile(built[0])
	if err != nil {
		return err
	}
	suite, err := rewrite(source)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(dir, "suite.gen.mjs"), suite, 0o644)
}

// rewrite aims the suite at the bucket. Vitest runs no test file inside
// node_modules, so the result is a copy beside it.
func rewrite(source []byte) ([]byte, error) {
	lines := 0
	for line := range bytes.Lines(source) {
		if bytes.Contains(line, []byte(suitePath)) {
			lines++
		}
	}
	if lines != suitePaths {
		return nil, fmt.Errorf("the suite has %d lines with %s, want %d: review the rewrite for this version", lines, suitePath, suitePaths)
	}
	return bytes.ReplaceAll(source, []byte(suitePath), []byte(bucketPath)), nil
}
