package agentconfig

import (
	"errors"

	"github.com/parley-hq/parley/internal/config"
)

// endpointKey returns the function that reads the key of an endpoint when it is needed. fallback is the environment
// variable that is read when the entry names none. The error for a missing key names the line and the field.
func endpointKey(a *config.Agent, env, file, fallback string) (func() (string, error), error) {
	secret, field := config.Secret{Env: env, File: a.Path(file)}, "key_env"
	switch {
	case env != "" && file != "":
		return nil, a.Errorf("key_file", "give key_env or key_file, not both")
	case file != "":
		field = "key_file"
	case env == "":
		secret.Env = fallback
	}
	return func() (string, error) {
		key, err := secret.Read()
		if err != nil {
			return "", a.Errorf(field, "%s", err)
		}
		return key, nil
	}, nil
}

// expandAll replaces ${VARIABLE} in all values of a map.
func expandAll(a *config.Agent, field string, values map[string]string) error {
	var errs []error
	for name, value := range values {
		v, err := config.Expand(value)
		if err != nil {
			errs = append(errs, a.Errorf(field+"."+name, "%s", err))
		}
		values[name] = v
	}
	return errors.Join(errs...)
}
