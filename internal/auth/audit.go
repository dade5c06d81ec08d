package auth

import "github.com/parley-hq/parley/chat"

// The events that [Options.Audit] is called with.
const (
	SignedIn         = "sign_in"           // a browser got a cookie, by a link or a token
	SignInRefused    = "sign_in_refused"   // wrong credentials; at most once a minute per address, with their number
	TokenIssued      = "token_issued"      // by [Auth.Issue]
	CredentialIssued = "credential_issued" // for NATS
	TokensReloaded   = "tokens_reloaded"

	ConfigurationReloaded = "configuration_reloaded"
)

// Report calls [Options.Audit]. Details contain no secrets.
func (a *Auth) Report(event string, c chat.Caller, details map[string]any) {
	if a.opt.Audit != nil {
		a.opt.Audit(event, c, details)
	}
}
