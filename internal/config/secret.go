package config

import (
	"fmt"
	"os"
	"regexp"
	"strings"
)

// Secret says where a secret is: in an environment variable or in a file. It is
// read each time, so a file may be replaced while the server runs.
type Secret struct {
	Env  string
	File string
}

// Read returns the secret, "" when none is configured.
func (s Secret) Read() (string, error) {
	switch {
	case s.File != "":
		b, err := os.ReadFile(s.File)
		if err != nil {
			return "", fmt.Errorf("the file %s of key_file cannot be read", s.File)
		}
		if v := strings.TrimSpace(string(b)); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the file %s of key_file is empty", s.File)
	case s.Env != "":
		if v := strings.TrimSpace(os.Getenv(s.Env)); v != "" {
			return v, nil
		}
		return "", fmt.Errorf("the environment variable %s of key_env is not set", s.Env)
	}
	return "", nil
}

var variable = regexp.MustCompile(`\$\{([A-Za-z_][A-Za-z0-9_]*)\}`)

// Expand replaces ${NAME} by the environment variable NAME.
func Expand(s string) (string, error) {
	var missing []string
	out := variable.ReplaceAllStringFunc(s, func(m string) string {
		name := m[2 : len(m)-1]
		v, ok := os.LookupEnv(name)
		if !ok {
			missing = append(missing, name)
		}
		return v
	})
	if len(missing) > 0 {
		return "", fmt.Errorf("the environment variable %s is not set", strings.Join(missing, ", "))
	}
	return out, nil
}
