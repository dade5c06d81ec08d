package artifact

import (
	"bufio"
	"context"
	"fmt"
	"os"
	"os/exec"
	"strings"
	"testing"

	"github.com/parley-hq/parley/chat"
)

// childDir is the environment variable with the folder of a child process: the test binary,
// which writes there until it is killed.
const childDir = "PARLEY_ARTIFACT_CHILD"

func content(i int) string { return strings.Repeat(fmt.Sprintf("content %d ", i%7), 5000) }

// runChild puts, overwrites, deletes and erases, and prints each acknowledged iteration.
func runChild(dir string) {
	l, err := Open(dir, Options{})
	if err != nil {
		fmt.Println("fail", err)
		os.Exit(1)
	}
	ctx := context.Background()
	for i := 0; ; i++ {
		_, err := l.Put(ctx, "kept", fmt.Sprintf("n%d", i), "", strings.NewReader(content(i)), PutOptions{})
		if err == nil {
			_, err = l.Put(ctx, "kept", "over", "", strings.NewReader(content(i+1)), PutOptions{})
		}
		if err == nil {
			_, err = l.Put(ctx, "gone", "x", "", strings.NewReader(content(i)), PutOptions{})
		}
		if err == nil {
			_, _, err = l.DeleteSession(ctx, "gone")
		}
		if err != nil {
			fmt.Println("fail", err)
			os.Exit(1)
		}
		fmt.Println("done", i)
	}
}

func TestAcknowledgedFilesSurviveAKill(t *testing.T) {
	dir := t.TempDir()
	for round := range 3 {
		cmd := exec.Command(os.Args[0])
		cmd.Env = append(os.Environ(), childDir+"="+dir)
		out, err := cmd.StdoutPipe()
		if err != nil {
			t.Fatal(err)
		}
		if err := cmd.Start(); err != nil {
			t.Fatal(err)
		}
		acked := -1
		lines := bufio.NewScanner(out)
		for acked < 10+round && lines.Scan() {
			if _, err := fmt.Sscanf(lines.Text(), "done %d", &acked); err != nil {
				t.Errorf("the process says %q", lines.Text())
				break
			}
		}
		_ = cmd.Process.Kill()
		_ = cmd.Wait()
		if acked < 0 {
			t.Fatal("nothing was done")
		}

		l := open(t, dir, Options{})
		for i := range acked + 1 {
			if get(t, l, "kept", fmt.Sprintf("n%d", i)) != content(i) {
				t.Fatalf("n%d has other bytes", i)
			}
		}
		get(t, l, "kept", "over")
		if report, err := l.Verify(t.Context()); err != nil || len(report.Problems) != 0 {
			t.Fatalf("%+v %v", report, err)
		}
	}
	l := open(t, dir, Options{})
	for _, s := range []chat.SessionID{"kept", "gone"} {
		if _, _, err := l.DeleteSession(t.Context(), s); err != nil {
			t.Fatal(err)
		}
	}
	if files := tree(t, dir); len(files) != 0 {
		t.Fatalf("left: %v", files)
	}
}
