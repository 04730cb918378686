package process

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"os"
	"path/filepath"

	"github.com/cespare/xxhash/v2"

	"github.com/causalstore/causalstore/contract"
	"github.com/causalstore/causalstore/sidecar/storage"
	"github.com/causalstore/causalstore/topology"
)

// identity is stored beside the durable data of a coordinator or middleman. It keeps a process from using data that is
// not its own: a log with versions of another origin, the storage of another shard, or data that was last used with a
// newer topology. Which slots a storage holds is recorded by the middleman itself.
type identity struct {
	Part       string          `json:"part"`
	DataCenter string          `json:"dataCenter"`
	Index      uint64          `json:"index"`
	Member     uint8           `json:"member,omitempty"` // of a group; in older storages there is none
	Epoch      uint64          `json:"epoch"`
	Layout     uint64          `json:"layout"`
	Origin     topology.Origin `json:"origin,omitempty"` // of a coordinator
	// Exclusions says how often each data center was excluded; nil in those of versions that do not judge exclusions.
	Exclusions map[string]int `json:"exclusions,omitzero"`

	topology *topology.Topology
}

func identityOf(t *topology.Topology, n topology.Node) identity {
	id := identity{Part: n.Part.String(), DataCenter: t.DCs[n.DC].Name, Index: n.Index, Member: n.Member,
		Epoch: t.Epoch, Layout: layoutDigest(t),
		Exclusions: t.Exclusions(), topology: t}
	if n.Part == topology.Coordinator {
		id.Origin = t.OriginOf(n)
	}
	return id
}

// layoutDigest digests everything in a topology but its epoch and round-trip times.
func layoutDigest(t *topology.Topology) uint64 {
	b, err := json.Marshal(struct {
		DCs        []topology.DataCenter
		Rings      []topology.Ring
		TieBreaker string `json:",omitempty"`
	}{t.DCs, t.Rings, t.TieBreaker})
	if err != nil {
		panic(err) // unreachable: strings and numbers can always be encoded
	}
	return xxhash.Sum64(b)
}

// checkSuccessor returns why a process with this identity must not use data that carries the identity before.
func (id identity) checkSuccessor(before identity) error {
	switch {
	case id.Part != before.Part || id.DataCenter != before.DataCenter || id.Index != before.Index:
		return fmt.Errorf(
			"it belongs to %s %d of %s; give this process one of its own, or correct dataCenter and index",
			before.Part, before.Index, before.DataCenter)
	case max(id.Member, 1) != max(before.Member, 1):
		return fmt.Errorf(
			"it belongs to member %d of %s %d of %s, and this is member %d; give this process one of its own, or "+
				"correct member",
			before.Member, before.Part, before.Index, before.DataCenter, id.Member)
	case id.Epoch < before.Epoch:
		return fmt.Errorf(
			"it was last used with topology epoch %d, and the topology given has epoch %d; give the newer one",
			before.Epoch, id.Epoch)
	case id.Epoch == before.Epoch && id.Layout != before.Layout:
		return fmt.Errorf(
			"it was last used with another topology of the same epoch %d; give that one, or raise the epoch", id.Epoch)
	case id.Origin != before.Origin:
		return fmt.Errorf("it holds writes of origin %d, and the topology given makes this coordinator origin %d; "+
			"add data centers only at the end of the list", before.Origin, id.Origin)
	case before.Exclusions != nil:
		return id.topology.CheckExclusions(before.Exclusions)
	}
	return nil
}

// logDir is the name of the write-buffer log in a coordinator's data folder.
const logDir = "log"

// identityFile is the name of the identity in a coordinator's data folder.
const identityFile = "identity.json"

// checkDir compares id with the identity in a folder. A folder without one is new.
func (id identity) checkDir(dir string) error {
	b, err := os.ReadFile(filepath.Join(dir, identityFile))
	if errors.Is(err, os.ErrNotExist) {
		return nil
	}
	if err != nil {
		return fmt.Errorf("dataDir: %w", err)
	}
	var before identity
	if err := json.Unmarshal(b, &before); err != nil {
		return fmt.Errorf("dataDir %s: %s is damaged: %w", dir, identityFile, err)
	}
	if err := id.checkSuccessor(before); err != nil {
		return fmt.Errorf("dataDir %s: %w", dir, err)
	}
	return nil
}

// checkLogDir returns an error if a data folder has an identity and no log: the log was there, since the identity is
// written after it, and was removed.
func checkLogDir(dir string) error {
	if _, err := os.Stat(filepath.Join(dir, identityFile)); err != nil {
		return nil // a new folder; checkDir reports other errors
	}
	segments, err := filepath.Glob(filepath.Join(dir, logDir, "*"))
	if err != nil || len(segments) > 0 {
		return err
	}
	return inState(contract.StateDataLost,
		fmt.Errorf(
			"data lost: dataDir %s has %s, but its folder %s is gone or empty: acknowledged writes may have been in "+
				"it; put the folder back. Only if it is certain that this coordinator has never accepted a write, or "+
				"that all its writes are in every ring, remove the whole dataDir",
			dir, identityFile, logDir))
}

// writeDir writes id to a folder atomically.
func (id identity) writeDir(dir string) error {
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if before, err := os.ReadFile(filepath.Join(dir, identityFile)); err == nil && string(before) == string(b)+"\n" {
		return nil // a full disk must not keep a coordinator from starting
	}
	f, err := os.CreateTemp(dir, ".identity-*")
	if err != nil {
		return fmt.Errorf("dataDir: %w", err)
	}
	_, err = f.Write(append(b, '\n'))
	if err = errors.Join(err, f.Sync(), f.Close()); err == nil {
		err = os.Rename(f.Name(), filepath.Join(dir, identityFile))
	}
	if err != nil {
		return fmt.Errorf("dataDir: write %s: %w", identityFile, errors.Join(err, os.Remove(f.Name())))
	}
	return nil
}

// metaIdentity is the name of the identity in a store.
const metaIdentity = "identity"

// checkStore compares id with the identity in a store. A store without one is new.
func (id identity) checkStore(ctx context.Context, s storage.Store) error {
	b, found, err := s.Meta(ctx, metaIdentity)
	if err != nil {
		return fmt.Errorf("storage: read identity: %w", err)
	}
	if !found {
		return nil
	}
	var before identity
	if err := json.Unmarshal(b, &before); err != nil {
		return fmt.Errorf(
			"storage: its identity record cannot be read; it is damaged, or the storage belongs to another "+
				"application: %w", err)
	}
	if err := id.checkSuccessor(before); err != nil {
		return fmt.Errorf("storage: %w", err)
	}
	return nil
}

// claimStore compares id with the identity in a store, and writes id there.
func (id identity) claimStore(ctx context.Context, s storage.Store) error {
	if err := id.checkStore(ctx, s); err != nil {
		return err
	}
	b, err := json.Marshal(id)
	if err != nil {
		return err
	}
	if err := s.SetMeta(ctx, metaIdentity, b); err != nil {
		return fmt.Errorf("storage: write identity: %w", err)
	}
	return nil
}
