// Command gen writes the vocabulary in TypeScript: the types of the web client, and
// the shapes with which its fold decodes payloads like the Go fold. It is run from the root of the repository:
//
//	go run ./web/gen
//
// A test fails when the file in the tree is not what this command writes.
package main

import (
	"fmt"
	"os"
	"path/filepath"
)

// target is the file that is written, below the root of the repository.
const target = "web/client/src/types.gen.ts"

func main() {
	if err := run("."); err != nil {
		fmt.Fprintln(os.Stderr, "gen:", err)
		os.Exit(1)
	}
}

func run(root string) error {
	text, err := generate(root)
	if err != nil {
		return err
	}
	return os.WriteFile(filepath.Join(root, filepath.FromSlash(target)), text, 0o644)
}
