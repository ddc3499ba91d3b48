// Transactions of several runs share commits, and each is as if it had been alone: what has returned is in the file, and
// a failure is its own.
import { assert, describe, it } from "@effect/vitest"
import * as Context from "effect/Context"
import * as Effect from "effect/Effect"
import * as Exit from "effect/Exit"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as SqliteClient from "../../../src/base/platform/SqliteClient.ts"
import * as SqliteStore from "../../../src/store/sqlite/SqliteStore.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { runScript } from "../../support/runScript.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"
import { watchStatements } from "../../support/watchStatements.ts"

const ids = Array.from({ length: 20 }, (_, index) => SessionId.make(`s${index}`))

/** Commits that an Effect makes. */
const countCommits = <A, E, R>(effect: Effect.Effect<A, E, R>) =>
  Effect.gen(function* () {
    let commits = 0
    yield* watchStatements(({ sourceSQL }) => void (sourceSQL === "COMMIT" && commits++))
    const value = yield* effect
    return { commits, value }
  }).pipe(Effect.scoped)

const opened = Effect.gen(function* () {
  const path = `${yield* temporaryDirectory}/state.db`
  const { store } = yield* SqliteStore.open(path)
  for (const id of ids) yield* store.create(makeNewSession(id))
  const other = yield* Effect.acquireRelease(
    Effect.sync(() => new DatabaseSync(path, { readOnly: true })),
    (database) => Effect.sync(() => database.close())
  )
  const countInFile = (id: string) =>
    other.prepare("SELECT count(*) AS count FROM messages WHERE session_id = ?").get(id)?.["count"]
  return { store, countInFile }
})

const appendToAll = ({ countInFile, store }: Effect.Success<typeof opened>) =>
  Effect.forEach(ids, (id) => Effect.map(store.append(id, [makeUserMessage("hello")]), () => countInFile(id)), {
    concurrency: "unbounded"
  })

/** A client whose statements fail as told. A statement `bad` fails; `end` ends the transaction, as a full disk does. */
const scripted = (refused: string, writers = 8) =>
  Effect.gen(function* () {
    let isOpen = false
    const statements: Array<string> = []
    const all = (text: string): ReadonlyArray<SqliteClient.Row> => {
      statements.push(text)
      if (text === "end") isOpen = false
      if (text === refused || text === "bad" || text === "end")
        throw Object.assign(new Error("refused"), { code: "ERR_SQLITE_ERROR", errcode: 13 })
      if (text.startsWith("BEGIN")) isOpen = true
      if (text === "COMMIT" || text === "ROLLBACK") isOpen = false
      return []
    }
    const client = yield* SqliteClient.make({
      all,
      once: all,
      run: (text) => ({ changes: all(text).length, lastInsertRowid: 0 }),
      isTransaction: () => isOpen,
      close: () => {}
    })
    for (let run = 0; run < writers; run++) yield* client.writer
    const told: Array<string> = []
    const runAll = (...texts: ReadonlyArray<string>) =>
      Effect.forEach(
        texts,
        (text) =>
          Effect.exit(
            client.transaction(
              Effect.andThen(
                client.afterTransaction(Effect.sync(() => void told.push(text))),
                client.statements((all) => all(text, []))
              )
            )
          ),
        { concurrency: "unbounded" }
      )
    return { client, runAll, statements, told }
  })

describe("transactions of several runs", () => {
  it.effect("share a commit, after which each of them is in the file", () =>
    Effect.gen(function* () {
      const database = yield* opened
      for (const id of ids.slice(0, 8)) yield* database.store.acquire(id)
      const { commits, value } = yield* countCommits(appendToAll(database))
      assert.deepStrictEqual(
        value,
        ids.map(() => 1)
      )
      assert.strictEqual(commits, 1)
    }).pipe(Effect.scoped)
  )

  it.effect("have a commit each while few runs hold a session", () =>
    Effect.gen(function* () {
      const database = yield* opened
      yield* Effect.scoped(Effect.andThen(database.store.acquire(ids[1] ?? SessionId.make("")), Effect.void))
      for (const id of ids.slice(2, 8)) yield* database.store.acquire(id)
      const { commits, value } = yield* countCommits(appendToAll(database))
      assert.deepStrictEqual(
        value,
        ids.map(() => 1)
      )
      assert.strictEqual(commits, ids.length)
    }).pipe(Effect.scoped)
  )

  it.effect("are one transaction; what waits for one runs after the commit", () =>
    Effect.gen(function* () {
      const { runAll, statements, told } = yield* scripted("")
      assert.isTrue((yield* runAll("one", "two")).every(Exit.isSuccess))
      assert.deepStrictEqual(statements.join(", "), "BEGIN IMMEDIATE, one, two, COMMIT")
      assert.deepStrictEqual(told.toSorted(), ["one", "two"])
    }).pipe(Effect.scoped)
  )

  it.effect("run in the order in which they came, whoever leads the group, and so does what follows them", () =>
    Effect.gen(function* () {
      const { client, statements, told } = yield* scripted("")
      const came: Array<string> = []
      yield* Effect.forEach(
        Array.from({ length: 400 }, (_, index) => `write ${index}`),
        (text, index) =>
          Effect.gen(function* () {
            for (let turn = 0; turn < index % 60; turn++) yield* Effect.yieldNow
            came.push(text)
            yield* client.transaction(
              Effect.gen(function* () {
                yield* client.afterTransaction(Effect.sync(() => void told.push(text)))
                for (let turn = 0; turn < index % 3; turn++) yield* Effect.yieldNow
                yield* client.statements((all) => all(text, []))
              })
            )
          }),
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(
        statements.filter((text) => text.startsWith("write")),
        came
      )
      assert.deepStrictEqual(told, came)
      assert.isAtMost(statements.filter((text) => text === "COMMIT").length, 20)
    }).pipe(Effect.scoped)
  )

  it.effect("are followed in their order, also where some are alone and the first of two still waits", () =>
    Effect.gen(function* () {
      const { client, told } = yield* scripted("", 7)
      const write = (text: string) =>
        client.transaction(
          client.afterTransaction(
            Effect.andThen(
              Effect.repeat(Effect.yieldNow, { times: text === "one" ? 20 : 0 }),
              Effect.sync(() => void told.push(text))
            )
          )
        )
      yield* Effect.all([write("one"), Effect.scoped(Effect.andThen(client.writer, write("two"))), write("three")], {
        concurrency: "unbounded"
      })
      assert.deepStrictEqual(told, ["one", "two", "three"])
    }).pipe(Effect.scoped)
  )

  it.effect("have the context of their own fiber", () =>
    Effect.gen(function* () {
      const { client } = yield* scripted("")
      const Name = Context.Reference<string>("test/Name", { defaultValue: () => "none" })
      const names = yield* Effect.forEach(
        ["one", "", "three"],
        (name) => {
          const write = client.transaction(
            Effect.andThen(
              client.statements((all) => all(`write ${name}`, [])),
              Name
            )
          )
          return name === "" ? write : Effect.provideService(write, Name, name)
        },
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(names, ["one", "none", "three"])
    }).pipe(Effect.scoped)
  )

  it.effect("are rolled back alone when they fail, also the first of them", () =>
    Effect.gen(function* () {
      for (const texts of [
        ["bad", "one", "two"],
        ["one", "bad", "two"]
      ]) {
        const { runAll, statements, told } = yield* scripted("")
        const ends = yield* runAll(...texts)
        assert.deepStrictEqual(
          ends.map(Exit.isSuccess),
          texts.map((text) => text !== "bad")
        )
        assert.deepStrictEqual(told.toSorted(), ["one", "two"])
        // The others run again, each as a savepoint, unless none has joined the failed one.
        assert.deepStrictEqual(
          statements.join(", "),
          texts[0] === "bad"
            ? "BEGIN IMMEDIATE, bad, ROLLBACK, BEGIN IMMEDIATE, one, two, COMMIT"
            : "BEGIN IMMEDIATE, one, bad, ROLLBACK, BEGIN IMMEDIATE, SAVEPOINT one_write, one, RELEASE one_write, " +
                "SAVEPOINT one_write, bad, ROLLBACK TO one_write, RELEASE one_write, COMMIT, BEGIN IMMEDIATE, two, COMMIT"
        )
      }
    }).pipe(Effect.scoped)
  )

  it.effect("all fail when their commit fails, and the next ones are a new transaction", () =>
    Effect.gen(function* () {
      const { client, runAll, statements, told } = yield* scripted("COMMIT")
      assert.isTrue((yield* runAll("one", "two")).every(Exit.isFailure))
      assert.deepStrictEqual(statements.slice(-2), ["COMMIT", "ROLLBACK"])
      assert.deepStrictEqual(told, [])
      yield* client.unsafe("read")
      assert.strictEqual(statements.at(-1), "read")
    }).pipe(Effect.scoped)
  )

  it.effect("all fail when SQLite ends the transaction, and those that come later do not join it", () =>
    Effect.gen(function* () {
      const { runAll, statements, told } = yield* scripted("")
      const ends = yield* runAll("one", "end", "three")
      assert.deepStrictEqual(ends.map(Exit.isSuccess), [false, false, true])
      assert.deepStrictEqual(told, ["three"])
      assert.deepStrictEqual(statements.slice(-3), ["BEGIN IMMEDIATE", "three", "COMMIT"])
    }).pipe(Effect.scoped)
  )

  it.effect("return to the line when SQLite ends the repeated transaction before they ran", () =>
    Effect.gen(function* () {
      const { client, statements } = yield* scripted("")
      let isFirst = true
      const write = (text: string, again: string) =>
        client.transaction(
          Effect.flatMap(
            Effect.sync(() => (isFirst ? text : again)),
            (chosen) => client.statements((all) => all(chosen, []))
          )
        )
      const failing = Effect.suspend(() => {
        const text = isFirst ? "bad" : "three"
        isFirst = false
        return client.statements((all) => all(text, []))
      })
      const ends = yield* Effect.forEach(
        [write("one", "one again"), write("two", "end"), client.transaction(failing)],
        Effect.exit,
        { concurrency: "unbounded" }
      )
      assert.deepStrictEqual(ends.map(Exit.isSuccess), [false, false, true])
      assert.deepStrictEqual(
        statements.join(", "),
        "BEGIN IMMEDIATE, one, two, bad, ROLLBACK, BEGIN IMMEDIATE, SAVEPOINT one_write, one again, RELEASE one_write, " +
          "SAVEPOINT one_write, end, BEGIN IMMEDIATE, three, COMMIT"
      )
    }).pipe(Effect.scoped)
  )
})

describe("a process that is killed", () => {
  it.live("leaves everything that its runs were told is stored", () =>
    Effect.gen(function* () {
      for (const lines of [5, 90, 301]) {
        const path = `${yield* temporaryDirectory}/state.db`
        let seen = 0
        const { lines: told } = yield* runScript("groupedWrites.ts", [path], (_, child) => {
          if (++seen === lines) child.kill("SIGKILL")
        })
        const file = new DatabaseSync(path)
        const find = file.prepare("SELECT 1 AS found FROM messages WHERE session_id = ? AND position = ?")
        for (const line of told) {
          const [id = "", position = ""] = line.split(" ")
          assert.deepInclude(find.get(id, Number(position)), { found: 1 }, line)
        }
        assert.isAtLeast(told.length, lines)
        assert.deepInclude(file.prepare("PRAGMA integrity_check").get(), { integrity_check: "ok" })
        file.close()
      }
    }).pipe(Effect.scoped)
  )
})
