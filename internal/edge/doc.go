// Package edge is the HTTP toolkit of the dialects: handlers that return an error, bodies with a limit, JSON answers,
// query values, answers to prompts, and the table from error codes to statuses. A dialect adds only its own messages.
//
//	x := &edge.HTTP{Dialect: "agui", Caller: caller, EncodeError: encodeError, Log: log}
//	routes := []wire.Route{x.Route("POST /agui/{agent}", d.run)}
//
//	func (d *Dialect) run(w http.ResponseWriter, r *http.Request, c chat.Caller) error {
//		var in runInput
//		if err := d.http.Read(r, &in); err != nil {
//			return err // Fail answers in the format of the dialect
//		}
//		…
//		d.http.Send(w, r, http.StatusOK, out)
//		return nil
//	}
//
// Everything may be used by several goroutines at once, except a [Query], which belongs to one request.
package edge
