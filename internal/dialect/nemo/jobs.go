package nemo

import (
	"context"
	"net/http"
	"regexp"
	"time"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
	"github.com/parley-hq/parley/internal/text"
)

// A job is a session of its own with one message. So it is durable, can be followed in every other dialect, and has the
// access rules of a session.

// jobFields are the fields of a job's body beside the workflow's.
var jobFields = map[string]bool{"job_id": true, "sync_timeout": true, "expiry_seconds": true}

var jobID = regexp.MustCompile(`^[A-Za-z0-9._-]+$`)

func validJobID(id string) bool { return len(id) <= 100 && jobID.MatchString(id) }

func jobConversation(id string) string { return "nemo-job-" + id }

// Times of a job, in seconds.
const (
	minExpiry     = 600
	defaultExpiry = 3600
	maxExpiry     = 86400
	maxSync       = 300
)

// job is the state of a job.
type job struct {
	ID        string  `json:"job_id"`
	Status    string  `json:"status"`
	Error     *string `json:"error"`
	Output    any     `json:"output"`
	CreatedAt chat.At `json:"created_at"`
	UpdatedAt chat.At `json:"updated_at"`
	ExpiresAt chat.At `json:"expires_at"`
}

// jobAccepted is the answer while the job runs.
type jobAccepted struct {
	ID     string `json:"job_id"`
	Status string `json:"status"`
}

func (d *Dialect) startJob(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	a, fields, err := d.readInput(r)
	if err != nil {
		return err
	}
	id, wait, expiry, err := jobOptions(fields)
	if err != nil {
		return err
	}
	if id == "" {
		id = d.opt.NewID()
	} else if j, err := d.job(r.Context(), c, id); err == nil {
		d.http.Send(w, r, http.StatusOK, jobAccepted{id, j.Status})
		return nil
	}
	a.Extra = map[string]json.RawMessage{"expiry_seconds": json.RawMessage(expiry)}
	a.conversation = jobConversation(id)
	answer, err := d.startAnswer(r.Context(), c, a, true)
	if err != nil {
		return err
	}
	if wait > 0 {
		ctx, cancel := context.WithTimeout(r.Context(), time.Duration(wait)*time.Second)
		defer cancel()
		done := answer.follow(ctx, func(*item) error { return nil }, func(*openPrompt) (bool, error) { return false, nil }, nil)
		if done == nil {
			j, err := d.job(r.Context(), c, id)
			if err == nil {
				d.http.Send(w, r, http.StatusOK, j)
			}
			return err
		}
	}
	d.http.Send(w, r, http.StatusAccepted, jobAccepted{id, "submitted"})
	return nil
}

// jobOptions reads the job fields of a body.
func jobOptions(fields map[string]json.RawMessage) (id string, wait int, expiry string, err error) {
	number := func(name string, low, high, usual int) int {
		raw, ok := fields[name]
		if !ok || string(raw) == "null" {
			return usual
		}
		var n int
		if json.Unmarshal(raw, &n) != nil || n < low || n > high {
			err = refuse(codeMessage, "%s is a whole number from %d to %d", name, low, high)
		}
		return n
	}
	wait = number("sync_timeout", 0, maxSync, 0)
	b, _ := json.Marshal(number("expiry_seconds", minExpiry, maxExpiry, defaultExpiry))
	if raw, ok := fields["job_id"]; ok && string(raw) != "null" {
		if json.Unmarshal(raw, &id) != nil || !validJobID(id) {
			err = refuse(codeMessage, "job_id has 1 to 100 of A-Z a-z 0-9 . _ -")
		}
	}
	return id, wait, string(b), err
}

func (d *Dialect) showJob(r *http.Request, c chat.Caller) (any, error) {
	return d.job(r.Context(), c, r.PathValue("id"))
}

// job reads the state of a job.
func (d *Dialect) job(ctx context.Context, c chat.Caller, id string) (job, error) {
	missing := chat.Errorf(chat.NotFound, "Job %s not found", text.Clip(id, 100))
	if !validJobID(id) {
		return job{}, missing
	}
	sess, err := d.opt.Sessions.Own(ctx, c, jobConversation(id))
	if err != nil {
		if code := chat.CodeOf(err); code == chat.NotFound || code == chat.Gone {
			err = missing
		}
		return job{}, err
	}
	var message chat.Seq
	for e, err := range d.opt.Sessions.Events(ctx, c, sess.ID, chat.Range{Limit: 1, Types: []string{"user.message"}}) {
		if err != nil {
			return job{}, err
		}
		message = e.Seq
	}
	if message == 0 {
		return job{}, missing
	}
	rep, err := d.report(ctx, c, sess, message)
	if err != nil {
		return job{}, err
	}
	j := job{ID: id, Status: "submitted", CreatedAt: rep.trigger.At, UpdatedAt: max(rep.trigger.At, rep.changed)}
	if rep.started {
		j.Status = "running"
	}
	if end := rep.answer.end; end != nil {
		switch {
		case end.outcome == chat.Failed:
			j.Status = "failure"
		case end.outcome != chat.Done:
			j.Status = "interrupted"
		default:
			j.Status, j.Output = "success", rep.result()
		}
		if rep.answer.err != nil {
			j.Error = &rep.answer.err.Details
		}
	}
	j.ExpiresAt = j.UpdatedAt + chat.At(rep.expiry())*1e6
	if rep.answer.end != nil && d.now() > j.ExpiresAt {
		return job{}, missing
	}
	return j, nil
}

func (rep *turnReport) expiry() int {
	b, _ := rep.trigger.Body.(chat.UserMessage)
	var n int
	if json.Unmarshal(contextOf(b).Extra["expiry_seconds"], &n) != nil || n <= 0 {
		return defaultExpiry
	}
	return n
}
