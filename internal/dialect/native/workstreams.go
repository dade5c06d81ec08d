package native

import (
	"context"
	"net/http"

	"github.com/parley-hq/parley/chat"
	"github.com/parley-hq/parley/internal/json"
)

func (d *Dialect) stopTurn(r *http.Request, c chat.Caller, s stopBody) (chat.StopResult, error) {
	return d.stop(r.Context(), c, sessionID(r), s)
}

func (d *Dialect) stop(ctx context.Context, c chat.Caller, id chat.SessionID, s stopBody) (chat.StopResult, error) {
	switch {
	case s.Workstreams && s.Workstream != "":
		return chat.StopResult{}, chat.Errorf(chat.Invalid, "either workstream_id names one line to stop, or workstreams stops all of them")
	case s.Workstreams:
		return d.opt.Sessions.StopAll(ctx, c, id, s.Reason)
	}
	return d.opt.Sessions.Stop(ctx, c, id, s.Workstream, s.Reason)
}

func (d *Dialect) forkSession(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
	var f chat.Fork
	if err := d.http.Read(r, &f); err != nil {
		return err
	}
	sess, err := d.opt.Sessions.Fork(r.Context(), c, sessionID(r), f)
	if err != nil {
		return err
	}
	w.Header().Set("Location", "/parley/v1/sessions/"+string(sess.ID))
	d.http.Send(w, r, http.StatusCreated, d.complete(sess))
	return nil
}

func (d *Dialect) launchWorkstream(r *http.Request, c chat.Caller, l chat.Launch) (chat.WorkstreamStatus, error) {
	return d.opt.Sessions.Launch(r.Context(), c, sessionID(r), l)
}

func (d *Dialect) listWorkstreams(r *http.Request, c chat.Caller) (workstreamsBody, error) {
	all, err := d.opt.Sessions.Workstreams(r.Context(), c, sessionID(r))
	return workstreamsBody{append([]chat.WorkstreamStatus{}, all...)}, err
}

func (d *Dialect) getWorkstream(r *http.Request, c chat.Caller) (chat.WorkstreamStatus, error) {
	return d.opt.Sessions.Workstream(r.Context(), c, sessionID(r), r.PathValue("workstream"))
}

func (d *Dialect) messageWorkstream(r *http.Request, c chat.Caller, m messageBody) (chat.WorkstreamStatus, error) {
	message := chat.Steering{Text: m.Message, ClientID: m.ClientID, Turn: m.Turn, Attempt: m.Attempt}
	return d.opt.Sessions.MessageWorkstream(r.Context(), c, sessionID(r), r.PathValue("workstream"), message)
}

func (d *Dialect) steerWorkstream(r *http.Request, c chat.Caller, s steerBody) (chat.WorkstreamStatus, error) {
	directive := chat.Steering{Command: s.Command, Text: s.text(), ClientID: s.ClientID, Turn: s.Turn, Attempt: s.Attempt}
	return d.opt.Sessions.SteerWorkstream(r.Context(), c, sessionID(r), r.PathValue("workstream"), directive)
}

// text returns the text of the directive, from either field.
func (s *steerBody) text() string {
	if s.Text != "" || len(s.Payload) == 0 || string(s.Payload) == "null" {
		return s.Text
	}
	var text string
	if json.Unmarshal(s.Payload, &text) == nil {
		return text
	}
	return string(s.Payload)
}

func (d *Dialect) terminateWorkstream(r *http.Request, c chat.Caller, t terminateBody) (chat.WorkstreamStatus, error) {
	reason := chat.Steering{Text: t.Reason, Turn: t.Turn, Attempt: t.Attempt}
	return d.opt.Sessions.TerminateWorkstream(r.Context(), c, sessionID(r), r.PathValue("workstream"), reason)
}

// workOps are the operations on workstreams; a worker has workstream_progress in
// addition.
const workOps = "launch_workstream, message_workstream, steer_workstream, terminate_workstream, workstream_status"

// workstream handles an operation on workstreams of the session that the frame names.
func (s *socket) workstream(ctx context.Context, f clientFrame) error {
	all, err := s.command(ctx, f, chat.TurnRef{Session: f.Session})
	if err == nil {
		s.send(ctx, serverFrame{Op: "ok", ID: f.ID, Session: f.Session, Workstreams: all})
	}
	return err
}

// workstream does the same for a worker, as part of a turn that it holds.
func (w *work) workstream(ctx context.Context, f clientFrame) error {
	ref, err := w.registration.Holds(f.Turn)
	if err != nil {
		return err
	}
	all, err := w.command(ctx, f, ref)
	if err == nil {
		w.send(ctx, serverFrame{Op: "ok", ID: f.ID, TurnID: f.Turn, Workstreams: all})
	}
	return err
}

func (s *socket) command(ctx context.Context, f clientFrame, ref chat.TurnRef) ([]chat.WorkstreamStatus, error) {
	sessions := s.d.opt.Sessions
	m := chat.Steering{Command: f.Command, Text: f.Text, ClientID: f.ClientID, Turn: ref.Turn, Attempt: ref.Attempt}
	var status chat.WorkstreamStatus
	var err error
	switch f.Op {
	case "launch_workstream":
		if f.Launch == nil {
			return nil, chat.Errorf(chat.Invalid, "launch_workstream needs launch: {id, instruction, …}")
		}
		l := *f.Launch
		if l.Turn, l.Attempt = ref.Turn, ref.Attempt; ref.Turn != "" {
			l.Parent = "" // the turn determines the launching workstream
		}
		if l.ClientID == "" {
			l.ClientID = f.ClientID
		}
		status, err = sessions.Launch(ctx, s.caller, ref.Session, l)
	case "message_workstream":
		status, err = sessions.MessageWorkstream(ctx, s.caller, ref.Session, f.Workstream, m)
	case "steer_workstream":
		status, err = sessions.SteerWorkstream(ctx, s.caller, ref.Session, f.Workstream, m)
	case "terminate_workstream":
		m.Text = f.Reason
		status, err = sessions.TerminateWorkstream(ctx, s.caller, ref.Session, f.Workstream, m)
	case "workstream_progress":
		if f.Progress == nil {
			return nil, chat.Errorf(chat.Invalid, "workstream_progress needs progress: {phase, message, …}")
		}
		return nil, sessions.ReportWorkstream(ctx, ref, f.ClientID, *f.Progress)
	default:
		if f.Workstream == "" {
			return sessions.Workstreams(ctx, s.caller, ref.Session)
		}
		status, err = sessions.Workstream(ctx, s.caller, ref.Session, f.Workstream)
	}
	if err != nil {
		return nil, err
	}
	return []chat.WorkstreamStatus{status}, nil
}
