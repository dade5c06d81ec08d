package bus

import (
	"context"
	"crypto/ed25519"
	"crypto/hkdf"
	"crypto/rand"
	"crypto/sha256"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/hex"
	"errors"
	"fmt"
	"io/fs"
	"math/big"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/nats-io/nats-server/v2/server"
	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/sleep"
)

// Cluster makes an embedded server one of several that store JetStream's data together. All of them have the same Name, Peers
// and Key.
//
// Traffic between the nodes has its own account with JetStream, which no login of a client reaches; see Server.ConnectNodes.
// The accounts of clients belong to one node: messages of clients do not reach clients of other nodes.
// An acknowledgement of JetStream means that the disks of a majority have the message.
type Cluster struct {
	Name      string   // id of the cluster
	Node      string   // id of this node; no other node may ever have it
	Listen    string   // where the other nodes connect
	Advertise string   // where they find this node; "" means the entry of Peers that is Listen
	Peers     []string // addresses of all nodes, that of Listen included: their number is the size of the cluster
	Key       []byte   // secret of the nodes; empty allows plain connections on loopback addresses
	SyncLater bool     // an acknowledgement means that the memory of a majority has the message
}

const (
	nodesAccount = "PARLEY" // of the traffic between the nodes
	mainAccount  = "MAIN"   // takes the place of the global account; see account
	nodesUser    = "parley-nodes"
	systemUser   = "parley-system" // changes the cluster itself

	clusterStore   = 64 << 30 // most bytes that JetStream may take on a node
	clusterPayload = 24 << 20 // a commit of the largest request, and JetStream's answer that has it in base64

	noSnapshot = "raft: no snapshot available" // there is nothing new since the last one
)

func (c *Cluster) validate() error {
	var errs []error
	if c.Name == "" || c.Node == "" {
		errs = append(errs, errors.New("a cluster needs a name, and an id for each of its nodes"))
	}
	if len(c.Peers) == 0 {
		errs = append(errs, errors.New("a cluster needs the addresses of its nodes"))
	}
	for _, addr := range append([]string{c.Listen}, c.Peers...) {
		host, _, err := split(addr)
		if err != nil {
			errs = append(errs, err)
		} else if ip := net.ParseIP(host); len(c.Key) == 0 && host != "localhost" && (ip == nil || !ip.IsLoopback()) {
			errs = append(errs, fmt.Errorf("nodes connect to %s, which is not on this machine: the cluster needs a secret", addr))
		}
	}
	if len(c.Peers) > 0 && !slices.Contains(c.Peers, c.Listen) {
		errs = append(errs, fmt.Errorf("the addresses of the nodes do not have %s, the one of this node", c.Listen))
	}
	if len(c.Key) > 0 && len(c.Key) < sha256.Size {
		errs = append(errs, errors.New("the key of a cluster has at least 32 bytes"))
	}
	return errors.Join(errs...)
}

// apply changes the settings of a server that is not in a cluster.
func (c *Cluster) apply(o *server.Options) error {
	// Accounts with JetStream can only be configured by text. Every node knows the main accounts of all nodes, because the leader
	// of JetStream creates the streams of all of them.
	text := "accounts { " + nodesAccount + " { jetstream: enabled }"
	for place := range c.Peers {
		text += ", " + accountAt(mainAccount, place) + " { jetstream: enabled }"
	}
	text += " }"
	var accounts server.Options
	if err := accounts.ProcessConfigString(text); err != nil {
		return fmt.Errorf("accounts of NATS: %w", err)
	}
	o.Accounts = accounts.Accounts
	host, port, err := split(c.Listen)
	if err != nil {
		return err
	}
	if port == 0 {
		port = server.RANDOM_PORT
	}
	o.ServerName = c.Node
	o.Tags = []string{c.tag()}
	o.MaxPayload = clusterPayload
	o.MaxPending = 4 * clusterPayload // a node reads several partitions
	o.SyncAlways = !c.SyncLater
	o.JetStreamMaxStore = clusterStore
	o.Cluster = server.ClusterOpts{
		Name: c.Name, Host: host, Port: port, Advertise: c.Advertise, NoAdvertise: true,
		// A node that no longer answers is noticed within seconds.
		PingInterval: 2 * time.Second, MaxPingsOut: 3,
	}
	var user *url.Userinfo
	if len(c.Key) > 0 {
		password := hex.EncodeToString(derive(c.Key, "password"))
		o.Cluster.Username, o.Cluster.Password, o.Cluster.AuthTimeout = "node", password, 5
		user = url.UserPassword("node", password)
		if o.Cluster.TLSConfig, err = routeTLS(c.Key); err != nil {
			return err
		}
		o.Cluster.TLSTimeout = 5
	}
	for _, addr := range c.Peers {
		o.Routes = append(o.Routes, &url.URL{Scheme: "nats-route", Host: addr, User: user})
	}
	return nil
}

// account returns the name of an account of this node's clients.
func (c *Cluster) account(name string) string {
	return accountAt(name, slices.Index(slices.Sorted(slices.Values(c.Peers)), c.Listen))
}

// accountAt returns the name of an account of the node whose address has that place among the sorted addresses of all nodes. The
// place stays when a node gets a new id after the loss of its disk, and it is the same for all nodes if they reach each other
// at other addresses than those at which they listen.
func accountAt(name string, place int) string { return name + "_" + strconv.Itoa(place) }

// tag names this node for the placement of streams.
func (c *Cluster) tag() string { return strings.ToLower(c.account("node")) }

// Tag is the tag of streams that this server alone stores, "" without a cluster.
func (s *Server) Tag() string {
	if s.opt.Cluster == nil {
		return ""
	}
	return s.opt.Cluster.tag()
}

// derive returns a key for one purpose.
func derive(key []byte, purpose string) []byte {
	out, err := hkdf.Key(sha256.New, key, nil, "nats routes: "+purpose, sha256.Size)
	if err != nil {
		panic(err) // only for other lengths
	}
	return out
}

// routeTLS returns settings by which both sides prove that they have the key: all nodes have the same certificate, and trust
// no other. It is valid at all times, so a wrong clock keeps no node out.
func routeTLS(key []byte) (*tls.Config, error) {
	const name = "nodes.parley.internal"
	private := ed25519.NewKeyFromSeed(derive(key, "certificate"))
	id := sha256.Sum256(private.Public().(ed25519.PublicKey))
	template := &x509.Certificate{
		SerialNumber: big.NewInt(1), Subject: pkix.Name{CommonName: name}, DNSNames: []string{name}, SubjectKeyId: id[:20],
		NotBefore: time.Date(2000, 1, 1, 0, 0, 0, 0, time.UTC), NotAfter: time.Date(2200, 1, 1, 0, 0, 0, 0, time.UTC),
		KeyUsage: x509.KeyUsageDigitalSignature | x509.KeyUsageCertSign, IsCA: true, BasicConstraintsValid: true,
		ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageServerAuth, x509.ExtKeyUsageClientAuth},
	}
	der, err := x509.CreateCertificate(rand.Reader, template, template, private.Public(), private)
	if err != nil {
		return nil, fmt.Errorf("certificate of the nodes: %w", err)
	}
	cert, err := x509.ParseCertificate(der)
	if err != nil {
		return nil, fmt.Errorf("certificate of the nodes: %w", err)
	}
	trusted := x509.NewCertPool()
	trusted.AddCert(cert)
	return &tls.Config{
		Certificates: []tls.Certificate{{Certificate: [][]byte{der}, PrivateKey: private}},
		RootCAs:      trusted, ServerName: name,
		ClientCAs: trusted, ClientAuth: tls.RequireAndVerifyClientCert,
		MinVersion: tls.VersionTLS13,
	}, nil
}

// main returns the main account.
func (s *Server) main() (*server.Account, error) {
	if s.opt.Cluster == nil {
		return s.nats.GlobalAccount(), nil
	}
	return s.nats.LookupAccount(s.opt.Cluster.account(mainAccount))
}

// ConnectNodes returns a connection from within the process to the account of the traffic between nodes. It may do
// everything. The caller closes it.
func (s *Server) ConnectNodes(name string) (*nats.Conn, error) {
	if s.opt.Cluster == nil {
		return nil, errors.New("NATS is not part of a cluster")
	}
	return s.connect(name, nodesUser)
}

// CompactStream waits until this node has purged all messages of a stream of the nodes before the sequence first, and has a later
// one, and removes them from its files. Without it their text stays in the Raft log of JetStream for some minutes. It succeeds only
// if that log is empty afterwards, because an entry keeps what is before it in the same file. So nothing may be written to the
// stream meanwhile.
func (s *Server) CompactStream(ctx context.Context, name string, first uint64) error {
	for {
		have, group, err := s.stateOf(name)
		if err != nil {
			return fmt.Errorf("compact stream %s: %w", name, err)
		}
		if have.FirstSeq >= first && have.LastSeq >= first {
			if g := s.raftGroup(group); g.Applied >= g.PIndex {
				if err := s.nats.JetStreamSnapshotStream(nodesAccount, name); err != nil && err.Error() != noSnapshot {
					return fmt.Errorf("compact stream %s: %w", name, err)
				}
				if s.raftGroup(group).WAL.Msgs == 0 && !s.removing(name, group) {
					return nil
				}
			}
		}
		select {
		case <-time.After(10 * time.Millisecond):
		case <-ctx.Done():
			return fmt.Errorf("compact stream %s: this node has not purged it yet: %w", name, ctx.Err())
		}
	}
}

// removing reports whether JetStream is still removing files of a stream or of its Raft group. It moves them to a folder and
// removes that later.
func (s *Server) removing(name, group string) bool {
	dir := s.nats.JetStreamConfig().StoreDir
	for _, folder := range []string{filepath.Join(dir, nodesAccount, "streams", name), filepath.Join(dir, s.nats.SystemAccount().Name, "_js_", group)} {
		if _, err := os.Stat(filepath.Join(folder, "__msgs__")); !errors.Is(err, fs.ErrNotExist) {
			return true
		}
	}
	return false
}

// raftGroup returns the state of a Raft group on this node.
func (s *Server) raftGroup(name string) (g server.RaftzGroup) {
	if all := s.nats.Raftz(&server.RaftzOptions{AccountFilter: nodesAccount, GroupFilter: name}); all != nil {
		for _, groups := range *all {
			if g, ok := groups[name]; ok {
				return g
			}
		}
	}
	return g
}

// stateOf returns the state of a stream of the nodes, as this node has it, and the name of its Raft group.
func (s *Server) stateOf(name string) (st server.StreamState, group string, err error) {
	all, err := s.nats.Jsz(&server.JSzOptions{Account: nodesAccount, Streams: true, RaftGroups: true})
	if err != nil {
		return st, "", err
	}
	for _, account := range all.AccountDetails {
		for _, stream := range account.Streams {
			if stream.Name == name {
				return stream.State, stream.RaftGroup, nil
			}
		}
	}
	return st, "", errors.New("this node does not store it")
}

// removeTime is how long one request to remove a server may take. A group of servers that elects its leader meanwhile does not answer.
const removeTime = 5 * time.Second

// RemoveNode removes a server that is gone for good from the cluster, so that others store what it has stored. It asks again until it
// is answered or ctx ends.
func (s *Server) RemoveNode(ctx context.Context, name string) error {
	conn, err := s.connect("remove "+name, systemUser)
	if err != nil {
		return err
	}
	defer conn.Close()
	body, err := json.Marshal(map[string]string{"peer": name})
	if err != nil {
		return err
	}
	for asked := 1; ; asked++ {
		limit, cancel := context.WithTimeout(ctx, removeTime)
		m, err := conn.RequestWithContext(limit, server.JSApiRemoveServer, body)
		cancel()
		if err == nil {
			err = readRemoved(m.Data, asked > 1)
		}
		if err == nil {
			return nil
		}
		err = fmt.Errorf("remove server %s: %w", name, err)
		again := errors.Is(err, context.DeadlineExceeded) || errors.Is(err, nats.ErrNoResponders) || errors.Is(err, errRemovalUnderWay)
		if !again || sleep.For(ctx, 100*time.Millisecond) != nil {
			return err
		}
	}
}

var errRemovalUnderWay = errors.New("another change of the servers is under way")

// readRemoved reads the answer to a request to remove a server. A server that is not a member any more was removed by an earlier request
// that was not answered.
func readRemoved(data []byte, repeated bool) error {
	var reply struct {
		Success bool `json:"success"`
		Error   *struct {
			Code        server.ErrorIdentifier `json:"err_code"`
			Description string                 `json:"description"`
		} `json:"error"`
	}
	switch err := json.Unmarshal(data, &reply); {
	case err != nil:
		return err
	case reply.Error != nil && reply.Error.Code == server.JSClusterServerNotMemberErr && repeated:
		return nil
	case reply.Error != nil && reply.Error.Code == server.JSClusterServerMemberChangeInflightErr:
		return errRemovalUnderWay
	case reply.Error != nil:
		return errors.New(reply.Error.Description)
	case !reply.Success:
		return fmt.Errorf("unexpected answer %q", data)
	}
	return nil
}
