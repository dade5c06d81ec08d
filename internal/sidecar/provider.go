package sidecar

import (
	"bytes"
	"context"
	"errors"
	"net/http"
	"strconv"
	"strings"

	"github.com/nats-io/nats.go"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/dialect/x1"
	"github.com/parley-hq/parley/internal/edge"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
	"github.com/parley-hq/parley/internal/wire"
)

// domains are the providers that an agent can ask through its sidecar.
var domains = []string{"graph", "vector", "messaging", "calendar", "docs", "email", "files"}

// serveProvider passes a request on to the provider of its domain.
func (s *Sidecar) serveProvider(w http.ResponseWriter, r *http.Request, domain string) error {
	op := r.PathValue("op")
	fields, err := s.readObject(r)
	if err != nil {
		return err
	}
	body, err := s.providerRequest(domain, op, fields)
	if err != nil {
		return err
	}
	return s.relay(w, r, "x1.provider."+domain+"."+op, domain, body)
}

// readObject reads the body of a request: a JSON object, or nothing.
func (s *Sidecar) readObject(r *http.Request) (map[string]json.RawMessage, error) {
	body, err := wire.ReadBody(r, maxPost)
	if err != nil {
		return nil, err
	}
	fields := map[string]json.RawMessage{}
	if len(bytes.TrimSpace(body)) > 0 && (wire.CheckJSON(body, 128) != nil || json.Unmarshal(body, &fields) != nil || fields == nil) {
		return nil, chat.Errorf(chat.Invalid, "the body is a JSON object")
	}
	return fields, nil
}

// relay sends a request on a subject and passes on the reply, without fields that look
// like credentials.
func (s *Sidecar) relay(w http.ResponseWriter, r *http.Request, subject, domain string, body []byte) error {
	data, header, err := s.conn.request(r.Context(), subject, body, s.opt.Provider)
	switch {
	case err == nil:
	case errors.Is(err, nats.ErrMaxPayload):
		return &relayError{http.StatusRequestEntityTooLarge, "too_large", "the request has " + strconv.Itoa(len(body)) + " bytes, which is more than one NATS message may have; send less at once"}
	case errors.Is(err, nats.ErrNoResponders):
		return &relayError{http.StatusBadGateway, "no_provider", "there is no provider of " + domain + "; start one"}
	case errors.Is(err, nats.ErrTimeout) || errors.Is(err, context.DeadlineExceeded):
		return &relayError{http.StatusGatewayTimeout, "provider_timeout", "the provider of " + domain + " did not answer within " + s.opt.Provider.String()}
	default:
		s.log.Warn("a provider request failed", "domain", domain, "err", err)
		return &relayError{http.StatusBadGateway, "bus_error", "NATS could not pass on the request; try again"}
	}
	if !json.Valid(data) {
		// Credentials in it could not be found and removed.
		return &relayError{http.StatusBadGateway, "bad_answer", "the provider of " + domain + " answered with something that is not JSON"}
	}
	status := http.StatusOK
	if n, err := strconv.Atoi(header.Get(x1.HeaderStatus)); err == nil && n >= 200 && n <= 599 {
		status = n
	}
	edge.SendJSON(w, r, status, s.conn.removeSecrets(redact(data)))
	return nil
}

// relayError is why a request was not answered by its provider.
type relayError struct {
	status        int
	code, message string
}

func (e *relayError) Error() string { return e.message }

// providerRequest checks that the agent may use the collection and adds the provenance:
// the session and epoch, and the agent's own fields confidence, source and derived_from.
func (s *Sidecar) providerRequest(domain, op string, fields map[string]json.RawMessage) ([]byte, error) {
	if op == "" || strings.ContainsAny(op, ".*> \t\r\n") || len(op) > 64 {
		return nil, chat.Errorf(chat.Invalid, "%q is not an operation", text.Clip(op, 120))
	}
	if domain == "graph" || domain == "vector" {
		var name string
		if raw := fields["collection"]; raw != nil && string(raw) != "null" && json.Unmarshal(raw, &name) != nil {
			return nil, chat.Errorf(chat.Invalid, "collection is a text")
		}
		handle, ok := s.collection(name)
		if !ok {
			return nil, chat.Errorf(chat.NotFound, "collection_not_attached: the agent may not use the collection %q", text.Clip(name, 120))
		}
		delete(fields, "collection")
		field := "handle"
		if domain == "vector" {
			field = "namespace"
		}
		fields[field], _ = json.Marshal(handle) // cannot fail
	}
	from := map[string]any{"session_id": s.opt.Session, "epoch": s.write.epoch}
	for _, f := range []string{"confidence", "source", "derived_from"} {
		if raw := fields[f]; raw != nil {
			from[f] = raw
			delete(fields, f)
		}
	}
	var err error
	if fields["provenance"], err = json.Marshal(from); err != nil {
		return nil, err
	}
	return json.Marshal(fields)
}

// collection finds the collection that the agent names.
func (s *Sidecar) collection(name string) (handle string, ok bool) {
	if s.opt.Collections == nil {
		if name == "" {
			name = "default"
		}
		return name, true
	}
	for _, c := range s.opt.Collections {
		if name == "" && c.Default || name != "" && (c.ID == name || c.Slug == name || c.Handle == name) {
			return c.Handle, true
		}
	}
	return "", false
}

// redact removes the values of fields whose names look like credentials, in case a
// provider returns some.
func redact(data []byte) []byte {
	dec := json.NewDecoder(bytes.NewReader(data))
	dec.UseNumber()
	var v any
	if dec.Decode(&v) != nil {
		return data
	}
	found := false
	v = redacted(v, &found)
	if !found {
		return data
	}
	b, err := json.Marshal(v)
	if err != nil {
		return []byte(`{"ok":false,"error":{"code":"internal","message":"the answer could not be shown"}}`)
	}
	return b
}

func redacted(v any, found *bool) any {
	switch v := v.(type) {
	case map[string]any:
		for k, e := range v {
			if s, ok := e.(string); ok && s != "" && secretName(k) {
				v[k], *found = "[removed]", true
				continue
			}
			v[k] = redacted(e, found)
		}
	case []any:
		for i, e := range v {
			v[i] = redacted(e, found)
		}
	}
	return v
}

func secretName(k string) bool {
	k = strings.ToLower(strings.NewReplacer("-", "", "_", "").Replace(k))
	switch k {
	case "password", "passwd", "secret", "clientsecret", "apikey", "accesstoken", "refreshtoken", "idtoken", "bearertoken", "authtoken", "authorization", "privatekey", "credential", "credentials", "sessiontoken", "internaltoken":
		return true
	}
	return false
}
