"""The SQL of the store: each request is one text, and each text is one transaction.

Promise: a commit holds the row of its scope. A record changes only under that row, so what a later statement of the
same transaction reads is the newest. A commit that found no row to hold writes nothing: the row may have come, and
changed, since the commit judged its guards. The row of a session is deleted only under the rows of all scopes in which
it has records, and a commit that binds a record to it holds it. Rows are locked in one order, so no two transactions
wait for each other.
"""

from __future__ import annotations

from typing import Final

TABLES: Final = """
begin;
select pg_advisory_xact_lock(7461747265);
{schema}
create table if not exists {s}.about (
  one boolean primary key default true check (one), format integer not null, origin text not null);
create table if not exists {s}.scopes (name text collate "C" primary key, revision bigint not null);
create table if not exists {s}.sessions (
  id text collate "C" primary key, ttl_us bigint not null, renewals bigint not null, lock bigint not null,
  home text not null, purpose text not null, opened timestamptz not null default now());
create table if not exists {s}.records (
  scope text collate "C", key text collate "C", value bytea not null, revision bigint not null,
  session text collate "C" references {s}.sessions (id), primary key (scope, key));
create index if not exists records_of_session on {s}.records (session) where session is not null;
insert into {s}.about (format, origin) values (1, %(origin)s) on conflict do nothing;
commit
"""

SCHEMA: Final = "create schema if not exists {s};"
"""Only where there is none: it needs a right that the owner of a schema may lack."""

ABOUT: Final = "select to_regclass('{s}.about') is not null, to_regnamespace('{s}') is not null"
ORIGIN: Final = "select format, origin from {s}.about"

LISTEN: Final = 'listen "{channel}"'

BARRIER: Final = """
select case when current_setting('synchronous_standby_names') <> '' then pg_logical_emit_message(true, 'tenure', '') end
"""
"""A read waits, as a commit does, until the synchronous standby has followed: so a primary that this standby has
replaced answers no read. Where any of several standbys will do, it may answer."""

_HELD: Final = """
exists (select from pg_locks l where l.locktype = 'advisory' and l.objsubid = 1 and l.granted
  and l.database = (select oid from pg_database where datname = current_database())
  and l.classid = (s.lock >> 32)::oid and l.objid = (s.lock & 4294967295)::oid)
"""
_SESSION: Final = f"s.id, s.ttl_us, s.renewals, s.home, {_HELD}"

ASK: Final = f"""
begin isolation level repeatable read;
{{barrier}};
select revision from {{s}}.scopes where name = %(scope)s;
select key, value, revision, session from {{s}}.records where scope = %(scope)s {{below}} order by key;
select {_SESSION} from {{s}}.sessions s
  where s.id in (select session from {{s}}.records where scope = %(scope)s and session is not null);
commit
"""
BELOW: Final = "and key > %(from)s and key < %(to)s"
AT: Final = "and key = %(key)s"

SESSIONS: Final = f"begin; select {_SESSION} from {{s}}.sessions s; commit"
SESSIONS_OF: Final = f"""
begin;
select {_SESSION} from {{s}}.sessions s
  where s.id in (select session from {{s}}.records where scope = %(scope)s and session is not null);
commit
"""

SCOPES: Final = """
begin isolation level repeatable read;
{barrier};
select distinct scope from {s}.records order by scope;
commit
"""

LOOK: Final = f"""
select pg_backend_pid();
select name, revision from {{s}}.scopes where name = any(%(scopes)s::text[]);
select {_SESSION} from {{s}}.sessions s
  where s.id in (select session from {{s}}.records where scope = any(%(scopes)s::text[]) and session is not null)
"""

NEW_SCOPE: Final = "begin; insert into {s}.scopes values (%(scope)s, 0) on conflict do nothing; commit"

COMMIT: Final = """
begin;
select set_config('tenure.locked', name, true) from {s}.scopes where name = %(scope)s for no key update;
with failing as (
  select g.place from unnest(%(keys)s::text[], %(wanted)s::bigint[]) with ordinality as g (key, wanted, place)
  left join {s}.records r on r.scope = %(scope)s and r.key = g.key
  where r.revision is distinct from g.wanted order by g.place limit 1
), living as (
  select id from {s}.sessions where id = any(%(bound)s::text[]) order by id for key share
), ended as (
  select b.id from unnest(%(bound)s::text[]) with ordinality as b (id, place)
  where b.id not in (select id from living) order by b.place limit 1
), moved as (
  update {s}.scopes set revision = revision + %(step)s
  where name = current_setting('tenure.locked', true) and %(writes)s
  and not exists (select from failing) and not exists (select from ended)
  returning revision
), removed as (
  delete from {s}.records
  where scope = %(scope)s and key = any(%(gone)s::text[]) and exists (select from moved)
), written as (
  insert into {s}.records (scope, key, value, revision, session)
  select %(scope)s, p.key, p.value, m.revision, p.session
  from moved m, unnest(%(put)s::text[], %(values)s::bytea[], %(sessions)s::text[]) as p (key, value, session)
  on conflict (scope, key) do update
  set value = excluded.value, revision = excluded.revision, session = excluded.session
)
select (select place from failing), (select id from ended), (select revision from moved),
  (select revision from {s}.scopes where name = %(scope)s);
commit;
select pg_notify(%(channel)s, name || ' ' || revision) from {s}.scopes where name = %(scope)s
"""
"""The notification is a transaction of its own: within the commit, PostgreSQL would let all commits of all databases
that notify wait for each other. If it is lost, the next look of the followers shows the change."""

OPEN: Final = """
begin;
select pg_advisory_lock_shared(%(lock)s);
insert into {s}.sessions (id, ttl_us, renewals, lock, home, purpose)
  values (%(id)s, %(ttl_us)s, 0, %(lock)s, %(home)s, %(purpose)s);
commit
"""
LOCK_AGAIN: Final = """
begin;
select pg_advisory_lock_shared(%(lock)s);
update {s}.sessions set home = %(home)s where id = %(id)s and home <> %(home)s;
commit
"""
UNLOCK: Final = "begin; select pg_advisory_unlock_shared(%(lock)s); commit"

RENEW: Final = """
begin;
update {s}.sessions set renewals = renewals + 1 where id = %(id)s returning renewals;
commit
"""

END: Final = """
begin;
select set_config('tenure.scopes', coalesce(string_agg(name, ','), ''), true) from (
  select name from {s}.scopes
  where name in (select scope from {s}.records where session = any(%(ids)s::text[])) order by name for no key update
) as locked;
select id, renewals from {s}.sessions where id = any(%(ids)s::text[]) order by id for update;
with over as (
  select s.id from {s}.sessions s join unnest(%(ids)s::text[], %(renewals)s::bigint[]) as j (id, renewals) using (id)
  where s.renewals = coalesce(j.renewals, s.renewals) and not exists (
    select from {s}.records r
    where r.session = s.id and r.scope <> all (string_to_array(current_setting('tenure.scopes'), ',')))
), gone as (
  delete from {s}.records where session in (select id from over) returning scope
), ended as (
  delete from {s}.sessions where id in (select id from over)
), moved as (
  update {s}.scopes set revision = revision + %(step)s where name in (select scope from gone)
  returning name, revision
)
select (select string_agg(id, ',') from over),
  set_config('tenure.moved', coalesce((select string_agg(name || ' ' || revision, ',') from moved), ''), false);
commit;
select pg_notify(%(channel)s, moved) from unnest(string_to_array(current_setting('tenure.moved'), ',')) as moved
"""
"""The scopes are locked first. A record that another commit has bound since is in a scope without a lock; then the
session is not ended, and the caller tries again."""
