package server

import (
	"crypto/tls"
	"fmt"
	"os"
	"sync"
	"time"
)

// certPause is the time between two checks of the certificate files.
const certPause = time.Second

// certificate reads a key pair from files, and again when they have changed, so that a
// renewed certificate needs no restart. It checks when a client connects, not in the
// background.
type certificate struct {
	certFile, keyFile string
	failed            func(error)

	mu     sync.Mutex
	pair   *tls.Certificate
	stamp  [2]stamp
	looked time.Time
}

type stamp struct {
	at   time.Time
	size int64
}

func (s *Server) tls() (*tls.Config, error) {
	c := &certificate{certFile: s.opt.CertFile, keyFile: s.opt.KeyFile, failed: func(err error) {
		s.opt.Logger.Error("the TLS certificate has changed but cannot be read; the old one stays in use", "err", err)
	}}
	if err := c.load(); err != nil {
		return nil, err
	}
	return &tls.Config{
		MinVersion: tls.VersionTLS12,
		GetCertificate: func(*tls.ClientHelloInfo) (*tls.Certificate, error) {
			return c.get(time.Now()), nil
		},
	}, nil
}

func (c *certificate) get(now time.Time) *tls.Certificate {
	c.mu.Lock()
	defer c.mu.Unlock()
	if now.Sub(c.looked) >= certPause {
		c.looked = now
		if stamps, err := c.stamps(); err != nil || stamps != c.stamp {
			if err := c.load(); err != nil {
				c.stamp = stamps // report it once, not for every client
				c.failed(err)
			}
		}
	}
	return c.pair
}

// load reads the files; on an error the pair in use stays.
func (c *certificate) load() error {
	stamps, err := c.stamps()
	if err != nil {
		return fmt.Errorf("read the TLS files: %w", err)
	}
	pair, err := tls.LoadX509KeyPair(c.certFile, c.keyFile)
	if err != nil {
		return fmt.Errorf("read the TLS certificate %s and key %s: %w", c.certFile, c.keyFile, err)
	}
	c.pair, c.stamp = &pair, stamps
	return nil
}

func (c *certificate) stamps() (s [2]stamp, err error) {
	for i, name := range []string{c.certFile, c.keyFile} {
		info, err := os.Stat(name)
		if err != nil {
			return s, err
		}
		s[i] = stamp{info.ModTime(), info.Size()}
	}
	return s, nil
}
