package sidecar

import "net/http"

func (s *Sidecar) orchestrate(mux *http.ServeMux) {}
