package store

import (
	"context"
	"database/sql"
	"fmt"
	"log/slog"
	"net/url"
	"strconv"
	"time"

	"slipway/internal/errs"
)

// migrations are the steps from an empty file to today's schema. Steps are only ever added.
func migrations() []string {
	return []string{
		`CREATE TABLE records (
			bucket TEXT NOT NULL,
			key    TEXT NOT NULL,
			value  BLOB NOT NULL,
			PRIMARY KEY (bucket, key)
		) STRICT, WITHOUT ROWID`,
	}
}

// dsn names the file with the settings of its connection. The exclusive lock keeps a second service out, and keeps the
// WAL's index in memory rather than in a mapped file, where a full disk would end the process with SIGBUS. A commit
// does not wait for the disk: Sync does, and in the order of the log nothing is lost that a later commit has kept. A
// checkpoint, for which writers wait, comes every 16 MB of the log.
func dsn(path string, wait time.Duration) string {
	v := url.Values{}
	v.Add("_pragma", "busy_timeout="+strconv.FormatInt(wait.Milliseconds(), 10))
	v.Add("_pragma", "locking_mode=EXCLUSIVE")
	v.Add("_pragma", "journal_mode=WAL")
	v.Add("_pragma", "synchronous=NORMAL")
	v.Add("_pragma", "wal_autocheckpoint=4000")
	v.Add("_pragma", "foreign_keys=ON")
	v.Add("_txlock", "immediate")
	return (&url.URL{Scheme: "file", Path: path, RawQuery: v.Encode()}).String()
}

// migrate brings the schema up to date, each step in its own transaction.
func migrate(ctx context.Context, db *sql.DB, path string, logger *slog.Logger) error {
	const table = `CREATE TABLE IF NOT EXISTS migrations (version INTEGER PRIMARY KEY, applied TEXT NOT NULL) STRICT`
	if _, err := db.ExecContext(ctx, table); err != nil {
		return classify(path, "open the store", err)
	}
	var have int
	if err := db.QueryRowContext(ctx, `SELECT coalesce(max(version), 0) FROM migrations`).Scan(&have); err != nil {
		return classify(path, "read the store's version", err)
	}
	steps := migrations()
	if have > len(steps) {
		return errs.New(errs.Conflict, "the store %s has version %d, this slipway knows %d", path, have, len(steps)).
			With("run the newer slipway that wrote it, or set data_dir to another directory")
	}
	for i := have; i < len(steps); i++ {
		if err := step(ctx, db, i+1, steps[i]); err != nil {
			return classify(path, fmt.Sprintf("migrate the store to version %d", i+1), err)
		}
		logger.Info("store migrated", "path", path, "version", i+1)
	}
	return nil
}

func step(ctx context.Context, db *sql.DB, version int, statement string) error {
	tx, err := db.BeginTx(ctx, nil)
	if err != nil {
		return err
	}
	defer func() { _ = tx.Rollback() }() // says ErrTxDone after the commit
	if _, err := tx.ExecContext(ctx, statement); err != nil {
		return err
	}
	const mark = `INSERT INTO migrations (version, applied) VALUES (?, ?)`
	if _, err := tx.ExecContext(ctx, mark, version, time.Now().UTC().Format(time.RFC3339)); err != nil {
		return err
	}
	return tx.Commit()
}
