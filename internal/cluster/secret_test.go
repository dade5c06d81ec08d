package cluster

import (
	"bytes"
	"testing"
)

func TestKeysFollowFromTheSecret(t *testing.T) {
	one, err := ParseSecret([]byte("0123456789abcdef\n"))
	if err != nil {
		t.Fatal(err)
	}
	same, _ := ParseSecret([]byte("0123456789abcdef"))
	other, _ := ParseSecret([]byte("0123456789abcdeF"))
	if !bytes.Equal(one.Key("routes"), same.Key("routes")) {
		t.Error("a newline at the end changes the keys")
	}
	if bytes.Equal(one.Key("routes"), other.Key("routes")) || bytes.Equal(one.Key("routes"), one.Key("cookies")) || len(one.Key("routes")) != 32 {
		t.Error("keys of another secret or purpose are the same")
	}
	if _, err := ParseSecret([]byte("short \n         ")); err == nil {
		t.Error("a short secret was accepted")
	}
}
