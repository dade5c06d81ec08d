package vertesia

import (
	"net/http"

	"github.com/parley-hq/parley/chat"
)

// issueToken gives a short-lived token for a key.
func (d *Dialect) issueToken(w http.ResponseWriter, r *http.Request, _ chat.Caller) error {
	if d.opt.Issue == nil {
		return chat.Errorf(chat.Unavailable, "this server does not exchange keys: use your token as it is")
	}
	token, err := d.opt.Issue(r)
	if err != nil {
		return err
	}
	d.send(w, r, http.StatusOK, map[string]string{"token": token})
	return nil
}
