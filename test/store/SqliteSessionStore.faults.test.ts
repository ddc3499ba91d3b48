import { assert, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type * as Prompt from "effect/ai/Prompt"
import { chmodSync, readdirSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../src/base/domain/Ids.ts"
import * as SessionStore from "../../src/store/SessionStore.ts"
import { commandOf, type Ended, runCommand, runScript } from "../support/runScript.ts"
import { makeNewSession, makeUserMessage } from "../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../support/temporaryDirectory.ts"

const id = SessionId.make("s")

const inStore = <A, E>(path: string, body: Effect.Effect<A, E, SessionStore.SessionStore>): Effect.Effect<A, E> =>
  Effect.provide(body, SessionStore.layerSqlite({ path }), { local: true })

const messages = (path: string) =>
  inStore(
    path,
    SessionStore.SessionStore.use((store) => store.messages(id))
  )

/** The numbers that the writer gave its messages. */
const numbers = (messages: ReadonlyArray<Prompt.Message>): ReadonlyArray<number> =>
  messages.map(({ content }) => {
    const part = typeof content === "string" ? undefined : content[0]
    return part?.type === "text" ? Number(/^\d+:(\d+) /u.exec(part.text)?.[1]) : NaN
  })

const acknowledged = ({ lines }: Ended): ReadonlyArray<number> =>
  lines.filter((line) => /^\d+$/u.test(line)).map(Number)

const assertSound = (path: string): void => {
  const database = new DatabaseSync(path)
  try {
    assert.deepStrictEqual(
      database
        .prepare("PRAGMA integrity_check")
        .all()
        .map((row) => row["integrity_check"]),
      ["ok"]
    )
    database.exec("INSERT INTO messages_fts (messages_fts) VALUES ('integrity-check')")
  } finally {
    database.close()
  }
}

it.live("every message that append returned from is there after kill -9, whenever it came", () =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    let known = 0
    for (const killAfter of ["opening", "opening", 1, 2, 9, 60, 75]) {
      let seen = 0
      const ended = yield* runScript("sessionWriter.ts", [path, id, "1000"], (line, child) => {
        if (line === killAfter || ++seen > Number(killAfter)) child.kill("SIGKILL")
      })
      assert.strictEqual(ended.signal, "SIGKILL", ended.errors)
      const stored = numbers(yield* messages(path))
      assert.deepStrictEqual(
        stored,
        stored.map((_, index) => index)
      )
      assert.isAtLeast(stored.length, Math.max(known, 1 + (acknowledged(ended).at(-1) ?? -1)))
      assertSound(path)
      known = stored.length
    }
    assert.isAtLeast(known, 147)
  }).pipe(Effect.scoped)
)

it.live("a disk that takes no more is a failure with a remedy, and loses nothing", () =>
  Effect.gen(function* () {
    const path = `${yield* temporaryDirectory}/state.db`
    // A limit on the size of files (in blocks of 512 or 1024 bytes) stands for a full disk.
    const ended = yield* runCommand([
      "sh",
      "-c",
      'ulimit -f 2000; exec "$0" "$@"',
      ...commandOf("sessionWriter.ts", [path, id, "100000"])
    ])
    assert.strictEqual(ended.code, 3, ended.errors)
    assert.match(ended.lines.at(-1) ?? "", /^SessionStoreError: \S+state\.db cannot .* the disk/u)
    const stored = numbers(yield* messages(path))
    assert.deepStrictEqual(stored, acknowledged(ended))
    assert.isAbove(stored.length, 0)
    assertSound(path)
    yield* inStore(
      path,
      SessionStore.SessionStore.use((store) => store.append(id, [makeUserMessage("space again")]))
    )
    assert.strictEqual((yield* messages(path)).length, stored.length + 1)
  }).pipe(Effect.scoped)
)

// Permissions mean nothing to root, who therefore tries as somebody else.
const asOrdinaryUser = <A, E, R>(body: Effect.Effect<A, E, R>): Effect.Effect<A, E, R> =>
  process.geteuid?.() === 0
    ? Effect.acquireUseRelease(
        Effect.sync(() => process.seteuid?.(65534)),
        () => body,
        () => Effect.sync(() => process.seteuid?.(0))
      )
    : body

it.live("sessions in a directory that can not be written are read, and writing says why not", () =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const path = `${directory}/state.db`
    yield* inStore(
      path,
      SessionStore.SessionStore.use((store) =>
        Effect.andThen(store.create(makeNewSession(id)), store.append(id, [makeUserMessage("kept")]))
      )
    )
    chmodSync(path, 0o444)
    chmodSync(directory, 0o555)
    yield* Effect.addFinalizer(() => Effect.sync(() => chmodSync(directory, 0o755)))
    const reading = <A, E>(body: Effect.Effect<A, E, SessionStore.SessionStore>) =>
      asOrdinaryUser(Effect.provide(body, SessionStore.layerSqlite({ path, readOnly: true }), { local: true }))
    assert.deepStrictEqual(yield* reading(SessionStore.SessionStore.use((store) => store.messages(id))), [
      makeUserMessage("kept")
    ])
    const error = yield* Effect.flip(
      reading(SessionStore.SessionStore.use((store) => store.append(id, [makeUserMessage("lost")])))
    )
    assert.include(error.message, "cannot be written: make the file and its directory writable")
    assert.deepStrictEqual(readdirSync(directory), ["state.db"])
  }).pipe(Effect.scoped)
)

it.live("a directory that can not be written is a failure with a remedy", () =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    yield* messages(`${directory}/elsewhere/state.db`)
    chmodSync(directory, 0o555)
    yield* Effect.addFinalizer(() => Effect.sync(() => chmodSync(directory, 0o755)))
    for (const path of [`${directory}/state.db`, `${directory}/deeper/state.db`]) {
      const error = yield* asOrdinaryUser(Effect.flip(messages(path)))
      assert.strictEqual(error.operation, "open")
      assert.strictEqual(
        error.message,
        `${path} cannot be written: make the file and its directory writable, or set another HERMES_HOME`
      )
    }
  }).pipe(Effect.scoped)
)
