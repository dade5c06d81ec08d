package s3

import (
	"bufio"
	"errors"
	"fmt"
	"log/slog"
	"os"
	"strings"
	"sync"
	"time"
)

// Credentials sign requests. They print as three asterisks.
type Credentials struct {
	id, secret, token string
}

// NewCredentials returns credentials; token is that of a temporary session, and may be empty.
func NewCredentials(id, secret, token string) Credentials { return Credentials{id, secret, token} }

const hidden = "***"

// String implements fmt.Stringer.
func (Credentials) String() string { return hidden }

// GoString implements fmt.GoStringer.
func (Credentials) GoString() string { return hidden }

// LogValue implements slog.LogValuer.
func (Credentials) LogValue() slog.Value { return slog.StringValue(hidden) }

// CredentialSource returns the credentials for the next request.
type CredentialSource func() (Credentials, error)

// Static always returns the same credentials.
func Static(c Credentials) CredentialSource {
	return func() (Credentials, error) { return c, nil }
}

// FromFile returns the credentials of a profile in a file as the AWS command line has it. The file is read again when it has
// changed, so that temporary credentials can be replaced.
func FromFile(path, profile string) CredentialSource {
	var mu sync.Mutex
	var last Credentials
	var at time.Time
	return func() (Credentials, error) {
		mu.Lock()
		defer mu.Unlock()
		fi, err := os.Stat(path)
		if err != nil {
			return Credentials{}, fmt.Errorf("the file with the credentials cannot be read: %w", err)
		}
		if !at.IsZero() && fi.ModTime().Equal(at) {
			return last, nil
		}
		c, err := readCredentials(path, profile)
		if err != nil {
			return Credentials{}, fmt.Errorf("%s: %w", path, err)
		}
		last, at = c, fi.ModTime()
		return c, nil
	}
}

// readCredentials reads a profile. Its errors have nothing of the text.
func readCredentials(path, profile string) (c Credentials, err error) {
	f, err := os.Open(path)
	if err != nil {
		return c, err
	}
	defer f.Close()
	in, found := false, false
	lines := bufio.NewScanner(f)
	for lines.Scan() {
		line := strings.TrimSpace(lines.Text())
		if name, ok := strings.CutPrefix(line, "["); ok {
			in = strings.TrimSpace(strings.TrimSuffix(name, "]")) == profile
			found = found || in
			continue
		}
		name, value, ok := strings.Cut(line, "=")
		if !in || !ok {
			continue
		}
		value = strings.TrimSpace(value)
		switch strings.ToLower(strings.TrimSpace(name)) {
		case "aws_access_key_id":
			c.id = value
		case "aws_secret_access_key":
			c.secret = value
		case "aws_session_token":
			c.token = value
		}
	}
	switch {
	case lines.Err() != nil:
		return Credentials{}, errors.New("the file with the credentials cannot be read")
	case !found:
		return Credentials{}, fmt.Errorf("there is no profile %q", profile)
	case c.id == "" || c.secret == "":
		return Credentials{}, fmt.Errorf("the profile %q needs aws_access_key_id and aws_secret_access_key", profile)
	}
	return c, nil
}
