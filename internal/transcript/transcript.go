// Package transcript plays recorded conversations against a server in a test and compares the replies with the recorded
// ones. A transcript is a txtar file: its parts are steps, and the reply of the server follows its step as a part with a
// name of its own. The flag -update rewrites the files, which are then read in review.
//
// Play runs one subtest per file and place, see servertest.EachPlace: the replies are the same at a node of a cluster that does not own
// the sessions. The caller decides whether the files run in parallel.
package transcript

import (
	"bytes"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"

	"golang.org/x/tools/txtar"

	"github.com/parley-hq/parley/internal/servertest"
)

var update = flag.Bool("update", false, "rewrite the transcripts in testdata")

// Player sends one step and returns the reply of the server, "" for none. Values that differ from run to run must be
// replaced.
type Player func(step txtar.File) string

// Play plays the transcripts in testdata. begin is called in each one's subtest,
// with the comment at the head of the file and the cluster of the server. reply is
// the name of the parts with the replies of the server. inCluster removes from a
// transcript what may differ in a cluster; nil means that nothing may.
func Play(t *testing.T, reply string, inCluster func([]byte) []byte, begin func(t *testing.T, comment string, c *servertest.Cluster) Player) {
	t.Helper()
	files, err := filepath.Glob("testdata/*.txtar")
	if err != nil || len(files) == 0 {
		t.Fatal("no transcripts", err)
	}
	servertest.EachPlace(t, func(t *testing.T, cluster func() *servertest.Cluster) {
		for _, file := range files {
			t.Run(strings.TrimSuffix(filepath.Base(file), ".txtar"), func(t *testing.T) {
				recorded, err := txtar.ParseFile(file)
				if err != nil {
					t.Fatal(err)
				}
				c := cluster()
				got := txtar.Format(replay(recorded, reply, begin(t, string(recorded.Comment), c)))
				if *update && c == nil { // a cluster is compared with what one server has given
					if err := os.WriteFile(file, got, 0o644); err != nil {
						t.Fatal(err)
					}
					return
				}
				want := txtar.Format(recorded)
				if c != nil && inCluster != nil {
					want, got = inCluster(want), inCluster(got)
				}
				if !bytes.Equal(got, want) {
					t.Errorf("%s is out of date (rewrite with -update and read the difference):\n%s", file, difference(string(want), string(got)))
				}
			})
		}
	})
}

// replay returns the archive with the current replies.
func replay(recorded *txtar.Archive, reply string, play Player) *txtar.Archive {
	out := &txtar.Archive{Comment: recorded.Comment}
	for _, f := range recorded.Files {
		if f.Name == reply {
			continue
		}
		out.Files = append(out.Files, f)
		if said := play(f); said != "" {
			out.Files = append(out.Files, txtar.File{Name: reply, Data: []byte(said)})
		}
	}
	return out
}

// difference shows the first line that differs.
func difference(want, got string) string {
	w, g := strings.Split(want, "\n"), strings.Split(got, "\n")
	for i := range min(len(w), len(g)) {
		if w[i] != g[i] {
			return fmt.Sprintf("line %d\nwant %s\n got %s", i+1, w[i], g[i])
		}
	}
	return fmt.Sprintf("%d lines, want %d", len(g), len(w))
}

// Request splits a step into the headers of a request, as names and values in turn, and its body: headers, an empty line and the
// body, or only the body.
func Request(step string) (headers []string, body string) {
	head, body, both := strings.Cut(step, "\n\n")
	if !both {
		return nil, strings.TrimSpace(step)
	}
	for line := range strings.Lines(head) {
		name, value, _ := strings.Cut(strings.TrimSpace(line), ": ")
		headers = append(headers, name, value)
	}
	return headers, strings.TrimSpace(body)
}
