package auth

import "net/http"

// Remote returns the address that a request comes from, for limits per address.
func (a *Auth) Remote(r *http.Request) string { return a.remote(r) }
