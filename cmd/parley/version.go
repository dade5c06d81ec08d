package main

import (
	"context"
	"fmt"
	"runtime"
	"runtime/debug"
)

// version is set when a release is built; otherwise it is the version that the Go build records.
var version = ""

func init() {
	if version == "" {
		version = buildVersion()
	}
}

// VersionCmd prints the version.
type VersionCmd struct{}

// Run prints one line.
func (VersionCmd) Run(_ context.Context, std *stdio) error {
	_, err := fmt.Fprintf(std.out, "parley %s (%s, %s/%s)\n", version, runtime.Version(), runtime.GOOS, runtime.GOARCH)
	return err
}

func buildVersion() string {
	info, ok := debug.ReadBuildInfo()
	if !ok {
		return "unknown"
	}
	text, dirty := info.Main.Version, ""
	if text == "" || text == "(devel)" {
		text = "devel"
		for _, s := range info.Settings {
			switch s.Key {
			case "vcs.revision":
				text = "devel-" + s.Value[:min(12, len(s.Value))]
			case "vcs.modified":
				if s.Value == "true" {
					dirty = "+changes"
				}
			}
		}
	}
	return text + dirty
}
