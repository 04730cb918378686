package plan

import (
	"crypto/sha256"
	"encoding/hex"
	"errors"
	"fmt"
	"io"

	corev1 "k8s.io/api/core/v1"
)

// Keys are the secrets of a store in one region. Each is random, and made once.
type Keys struct {
	// Token authenticates session tokens. It must be the same in all regions: see docs/kubernetes.md.
	Token string
	// Storage is the password of the storage's only user.
	Storage string
}

// KeyToken is the file of the key of session tokens, which sidecars get.
const KeyToken = "token-key"

const (
	keyStorage = "storage-password"
	keyUsers   = "users.acl"
	// keyBytes is how many random bytes a key has.
	keyBytes = 32
)

// storageUser is the user of the storage that the middleman is.
const storageUser = "causalstore"

// storageRights are what a middleman needs of a Redis.
const storageRights = "~* &* +@read +@write +@transaction +@connection +info +config|get +wait"

// NewKeys makes keys.
func NewKeys(random io.Reader) (Keys, error) {
	make := func() (string, error) {
		b := [keyBytes]byte{}
		_, err := io.ReadFull(random, b[:])
		return hex.EncodeToString(b[:]), err
	}
	token, err := make()
	storage, err2 := make()
	if err = errors.Join(err, err2); err != nil {
		return Keys{}, fmt.Errorf("make keys: %w", err)
	}
	return Keys{token, storage}, nil
}

// ReadKeys reads what keys has written. Keys that are missing are taken from fresh.
func ReadKeys(s *corev1.Secret, fresh Keys) Keys {
	k := Keys{string(s.Data[KeyToken]), string(s.Data[keyStorage])}
	if k.Token == "" {
		k.Token = fresh.Token
	}
	if k.Storage == "" {
		k.Storage = fresh.Storage
	}
	return k
}

// keys: the storage is told who may do what by a file of its own kind, with a digest of the password. The default user cannot log
// in, and yet has all rights: a Redis that reads its log back at a start does so as that user, and passes over every transaction
// that it has no right to.
func (b *builder) keys() *corev1.Secret {
	k := b.in.Keys
	digest := sha256.Sum256([]byte(k.Storage))
	users := fmt.Sprintf("user default off ~* &* +@all\nuser %s on #%s %s\n", storageUser, hex.EncodeToString(digest[:]), storageRights)
	return &corev1.Secret{ObjectMeta: b.keptMeta(KeysName(b.store.Name), b.labels()), Type: corev1.SecretTypeOpaque,
		Data: map[string][]byte{
			KeyToken: []byte(k.Token), keyStorage: []byte(k.Storage), keyUsers: []byte(users),
		}}
}
