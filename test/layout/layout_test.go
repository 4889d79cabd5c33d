// Package layout holds the repository to its own rules of structure: which
// package may import or call what. They are written here once, as a test.
package layout

import (
	"bytes"
	"encoding/json"
	"errors"
	"go/ast"
	"go/parser"
	"go/token"
	"io"
	"os/exec"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"testing"
)

const module = "runnel.dev/runnel/"

type pkg struct {
	ImportPath string
	Dir        string
	GoFiles    []string
	Imports    []string
}

func (p pkg) rel() string { return strings.TrimPrefix(p.ImportPath, module) }

func packages(t *testing.T) []pkg {
	t.Helper()
	cmd := exec.Command("go", "list", "-json=ImportPath,Dir,GoFiles,Imports", module+"...")
	out, err := cmd.Output()
	if err != nil {
		t.Fatalf("go list: %v", err)
	}
	var all []pkg
	for d := json.NewDecoder(bytes.NewReader(out)); ; {
		var p pkg
		if err := d.Decode(&p); errors.Is(err, io.EOF) {
			break
		} else if err != nil {
			t.Fatal(err)
		}
		all = append(all, p)
	}
	if len(all) < 5 {
		t.Fatalf("go list found only %d packages", len(all))
	}
	return all
}

func under(path string, roots ...string) bool {
	return slices.ContainsFunc(roots, func(root string) bool {
		return path == root || strings.HasPrefix(path, root+"/")
	})
}

// pure packages see no clock, network, file or logger.
var pure = []string{
	"node/stream", "node/jsontext", "node/protocol", "node/meta",
	"controllers/internal/plan", "controllers/internal/desired", "controllers/internal/conditions",
}

func TestImportsFollowTheLayout(t *testing.T) {
	for _, p := range packages(t) {
		rel := p.rel()
		for _, imp := range p.Imports {
			own := strings.TrimPrefix(imp, module)
			switch {
			case under(rel, "node") && (strings.HasPrefix(imp, "k8s.io/") || strings.HasPrefix(imp, "sigs.k8s.io/") || under(own, "api", "controllers")):
				t.Errorf("%s imports %s: nodes know nothing of Kubernetes", rel, imp)
			case under(rel, "controllers") && under(own, "node") && own != "node/adminapi" && own != "node/protocol":
				t.Errorf("%s imports %s: of node, controllers see adminapi and protocol only", rel, imp)
			case under(rel, "api") && under(own, "node", "controllers"):
				t.Errorf("%s imports %s: api stands alone", rel, imp)
			case under(rel, pure...) && (under(imp, "net", "os", "log", "io/fs", "syscall", "math/rand", "crypto/rand", "context")):
				t.Errorf("%s imports %s: this package is pure", rel, imp)
			case strings.HasPrefix(imp, "github.com/aws/") && rel != "node/objectstore":
				t.Errorf("%s imports %s: only objectstore knows S3", rel, imp)
			case strings.HasPrefix(imp, "github.com/cockroachdb/pebble") && under(rel, "node") && !under(rel, "node/wal", "node/basestore") && rel != "node":
				t.Errorf("%s imports %s: only the storage packages and the composition root see the file system", rel, imp)
			}
		}
	}
}

// Calls that pure packages may not make, and calls that open files.
var (
	clockCalls = []string{"time.Now", "time.Since", "time.Until", "time.Sleep", "time.After", "time.AfterFunc", "time.NewTimer", "time.NewTicker", "time.Tick"}
	fileCalls  = []string{"os.Open", "os.OpenFile", "os.OpenRoot", "os.Create", "os.CreateTemp", "os.WriteFile", "os.Mkdir", "os.MkdirAll", "os.Rename", "os.Remove", "os.RemoveAll", "os.Truncate"}
)

func TestCallsFollowTheLayout(t *testing.T) {
	for _, p := range packages(t) {
		rel := p.rel()
		var banned []string
		switch {
		case under(rel, pure...):
			banned = slices.Concat(clockCalls, fileCalls)
		case under(rel, "node"):
			banned = fileCalls
		default:
			continue
		}
		for _, file := range p.GoFiles {
			for _, call := range calls(t, filepath.Join(p.Dir, file)) {
				if slices.Contains(banned, call) {
					t.Errorf("%s/%s calls %s", rel, file, call)
				}
			}
		}
	}
}

// calls lists the selector expressions pkg.Name of a file, by import name.
func calls(t *testing.T, path string) []string {
	t.Helper()
	f, err := parser.ParseFile(token.NewFileSet(), path, nil, parser.SkipObjectResolution)
	if err != nil {
		t.Fatal(err)
	}
	names := map[string]string{}
	for _, imp := range f.Imports {
		full, _ := strconv.Unquote(imp.Path.Value)
		name := full[strings.LastIndex(full, "/")+1:]
		if imp.Name != nil {
			name = imp.Name.Name
		}
		names[name] = full
	}
	var out []string
	ast.Inspect(f, func(n ast.Node) bool {
		sel, ok := n.(*ast.SelectorExpr)
		if !ok {
			return true
		}
		if id, ok := sel.X.(*ast.Ident); ok && names[id.Name] != "" {
			out = append(out, names[id.Name]+"."+sel.Sel.Name)
		}
		return true
	})
	return out
}
