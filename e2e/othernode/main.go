// Command othernode runs the tests of clients against a cluster. It takes the place of the program in such a test: it has the same arguments,
// starts three nodes with them, and is at the given address a node that owns no session. PARLEY_SERVER names the program.
//
// The other nodes have their data in the folder peers of the data folder. All nodes end with this process.
package main

import (
	"bufio"
	"bytes"
	"context"
	"errors"
	"fmt"
	"net/http"
	"os"
	"os/exec"
	"os/signal"
	"path/filepath"
	"regexp"
	"runtime"
	"slices"
	"strings"
	"syscall"
	"time"

	"github.com/parley-hq/parley/internal/freeport"
	"github.com/parley-hq/parley/internal/sleep"
)

// startTime is how long the cluster may take to start.
const startTime = 3 * time.Minute

func main() {
	runtime.LockOSThread() // the nodes end with this thread
	code, err := run(os.Args[1:])
	if err != nil {
		fmt.Fprintln(os.Stderr, "othernode:", err)
		code = 1
	}
	os.Exit(code)
}

// run starts the nodes and returns the exit code of the node at the given address.
func run(args []string) (code int, err error) {
	if len(args) == 0 || args[0] != "serve" { // another command
		cmd := exec.Command(os.Getenv("PARLEY_SERVER"), args...)
		cmd.Stdin, cmd.Stdout, cmd.Stderr = os.Stdin, os.Stdout, os.Stderr
		err := cmd.Run()
		if ended, ok := errors.AsType[*exec.ExitError](err); ok {
			return ended.ExitCode(), nil
		}
		return 0, err
	}
	data := value(args, "--data")
	if data == "" {
		return 0, errors.New("--data is missing")
	}
	addrs, err := addresses(filepath.Join(data, "peers"))
	if err != nil {
		return 0, err
	}
	stop := make(chan os.Signal, 1)
	signal.Notify(stop, syscall.SIGTERM, os.Interrupt)
	var nodes []*exec.Cmd
	defer func() {
		for _, n := range nodes[min(1, len(nodes)):] {
			_ = n.Process.Signal(syscall.SIGTERM) // it may have ended
			_ = n.Wait()
		}
	}()
	var out *bufio.Scanner
	for i, addr := range addrs {
		own := append(slices.Clone(args), "--cluster-listen", addr, "--cluster-peers", strings.Join(addrs, ","))
		if i > 0 {
			own = append(own, "--addr", "127.0.0.1:0", "--data", filepath.Join(data, "peers", fmt.Sprint(i)))
		}
		n := exec.Command(os.Getenv("PARLEY_SERVER"), own...)
		n.SysProcAttr = &syscall.SysProcAttr{Pdeathsig: syscall.SIGKILL}
		n.Stderr = os.Stderr
		if i == 0 {
			pipe, err := n.StdoutPipe()
			if err != nil {
				return 0, err
			}
			out = bufio.NewScanner(pipe)
		}
		if err := n.Start(); err != nil {
			return 0, err
		}
		nodes = append(nodes, n)
	}
	ended := make(chan error, 1)
	go func() { ended <- show(out, value(args, "--token")) }()
	select {
	case <-stop:
		_ = nodes[0].Process.Signal(syscall.SIGTERM) // it may have ended
		<-ended
	case err = <-ended:
	}
	_ = nodes[0].Wait() // its state has the exit code
	return nodes[0].ProcessState.ExitCode(), err
}

var ready = regexp.MustCompile(`is ready at (http://\S+)`)

// show prints the output of a node. It holds back that the node is ready until the node owns nothing.
func show(out *bufio.Scanner, token string) error {
	for out.Scan() {
		if m := ready.FindStringSubmatch(out.Text()); m != nil {
			if err := drain(m[1], token); err != nil {
				return err
			}
		}
		fmt.Println(out.Text())
	}
	return out.Err()
}

// drain waits until the node is ready and has given its partitions to the others.
func drain(url, token string) error {
	last := ""
	for end := time.Now().Add(startTime); time.Now().Before(end); sleep.For(context.Background(), 20*time.Millisecond) {
		if last = call("GET", url+"/readyz", "", ""); last != "" {
			continue
		}
		if last = call("POST", url+"/parley/v1/cluster/drain", token, `{}`); last == "" {
			return nil
		}
	}
	return fmt.Errorf("the node still owns partitions: %s", last)
}

// call makes a request and returns why it failed.
func call(method, url, token, body string) string {
	r, err := http.NewRequest(method, url, strings.NewReader(body))
	if err != nil {
		return err.Error()
	}
	r.Header.Set("Content-Type", "application/json")
	if token != "" {
		r.Header.Set("Authorization", "Bearer "+token)
	}
	res, err := http.DefaultClient.Do(r)
	if err != nil {
		return err.Error()
	}
	defer res.Body.Close()
	if res.StatusCode == http.StatusOK {
		return ""
	}
	var b bytes.Buffer
	_, _ = b.ReadFrom(res.Body) // it is for the error
	return res.Status + " " + b.String()
}

// addresses returns the addresses at which the nodes reach each other: those of the last start, or free ones.
func addresses(dir string) ([]string, error) {
	file := filepath.Join(dir, "addresses")
	if b, err := os.ReadFile(file); err == nil {
		return strings.Fields(string(b)), nil
	}
	var all []string
	for range 3 {
		addr, err := freeport.Find()
		if err != nil {
			return nil, err
		}
		all = append(all, addr)
	}
	if err := os.MkdirAll(dir, 0o700); err != nil {
		return nil, err
	}
	return all, os.WriteFile(file, []byte(strings.Join(all, "\n")), 0o600)
}

// value returns the last value of a flag.
func value(args []string, name string) (v string) {
	for i, a := range args {
		if rest, ok := strings.CutPrefix(a, name+"="); ok {
			v = rest
		} else if a == name && i+1 < len(args) {
			v = args[i+1]
		}
	}
	return v
}
