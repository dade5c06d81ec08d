package otlp

import (
	"crypto/tls"
	"crypto/x509"
	"errors"
	"fmt"
	"net/http"
	"net/url"
	"os"
	"strconv"
	"strings"
	"time"
)

// settings are read from the environment.
type settings struct {
	header  http.Header
	timeout time.Duration // of one attempt
	gzip    bool
	tls     *tls.Config // nil is the default of Go
}

func readSettings() (s settings, err error) {
	s.header, s.timeout = http.Header{}, defaultTimeout
	if name, value := variable("HEADERS"); value != "" {
		if err := readHeaders(s.header, value); err != nil {
			return s, fmt.Errorf("%s: %w", name, err)
		}
	}
	if s.header.Get("User-Agent") == "" {
		s.header.Set("User-Agent", "parley")
	}
	if name, value := variable("TIMEOUT"); value != "" {
		ms, err := strconv.Atoi(value)
		if err != nil || ms <= 0 {
			return s, fmt.Errorf("%s=%q is not a number of milliseconds", name, value)
		}
		s.timeout = time.Duration(ms) * time.Millisecond
	}
	_, compression := variable("COMPRESSION")
	s.gzip = compression == "gzip"
	s.tls, err = readTLS()
	return s, err
}

// variable returns the name and the value of a variable: that for traces, or the one for all signals.
func variable(name string) (full, value string) {
	full = "OTEL_EXPORTER_OTLP_TRACES_" + name
	if value = strings.TrimSpace(os.Getenv(full)); value == "" {
		full = "OTEL_EXPORTER_OTLP_" + name
		value = strings.TrimSpace(os.Getenv(full))
	}
	return full, value
}

// readHeaders reads name=value,name=value. Values are percent-encoded. Errors do not repeat a value: it may be a secret.
func readHeaders(header http.Header, list string) error {
	for pair := range strings.SplitSeq(list, ",") {
		if strings.TrimSpace(pair) == "" {
			continue
		}
		name, value, ok := strings.Cut(pair, "=")
		if name = strings.TrimSpace(name); !ok || name == "" {
			return errors.New("headers are given as name=value, with commas between them")
		}
		value, err := url.PathUnescape(strings.TrimSpace(value))
		if err != nil {
			return fmt.Errorf("the value of %s is not percent-encoded correctly", name)
		}
		header.Set(name, strings.TrimSpace(value))
	}
	return nil
}

func readTLS() (*tls.Config, error) {
	var c tls.Config
	if name, file := variable("CERTIFICATE"); file != "" {
		pem, err := os.ReadFile(file)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.RootCAs = x509.NewCertPool()
		if !c.RootCAs.AppendCertsFromPEM(pem) {
			return nil, fmt.Errorf("%s: %s has no certificate in PEM form", name, file)
		}
	}
	name, file := variable("CLIENT_CERTIFICATE")
	if _, key := variable("CLIENT_KEY"); file != "" && key != "" {
		pair, err := tls.LoadX509KeyPair(file, key)
		if err != nil {
			return nil, fmt.Errorf("%s: %w", name, err)
		}
		c.Certificates = []tls.Certificate{pair}
	}
	if c.RootCAs == nil && c.Certificates == nil {
		return nil, nil
	}
	return &c, nil
}
