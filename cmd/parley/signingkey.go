package main

import (
	"path/filepath"

	"github.com/parley-hq/parley/internal/sealed"
)

// signingKey returns the key that signs issued tokens and the addresses of Vertesia clients. It is stored, so that they stay valid
// after a restart. All nodes of a cluster with a secret have the same one.
func (p *parley) signingKey() ([]byte, error) {
	if p.cfg.ClusterSecretFile != "" && p.node != nil {
		return p.clusterSecret.Key("signing"), nil
	}
	file := filepath.Join(p.cfg.Data, "signing-key")
	key, created, err := sealed.Key(file, 32)
	if err == nil && created && !p.fresh {
		p.log.Info("a new signing key was made; tokens and addresses that were signed before are refused", "file", file)
	}
	return key, err
}
