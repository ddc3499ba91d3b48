// What is left of a damaged database is saved, whatever is damaged: its header, its end, pages in its middle, its log.
// The damaged file is kept as it was.
import { assert, describe, it } from "@effect/vitest"
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import { copyFileSync, existsSync, readdirSync, readFileSync, truncateSync, writeFileSync } from "node:fs"
import { DatabaseSync } from "node:sqlite"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import * as SessionMaintenance from "../../../src/store/SessionMaintenance.ts"
import * as SessionStore from "../../../src/store/SessionStore.ts"
import { makeNewSession, makeUserMessage } from "../../support/sessionStoreConformance.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const names = Array.from({ length: 60 }, (_, index) => `s${index}`)

const textOf = (name: string): string => `${name} ${"words of it ".repeat(300)}`

const messageOf = (name: string) => makeUserMessage(textOf(name))

const withStore = <A, E, R>(path: string, body: Effect.Effect<A, E, R | SessionStore.SessionStore>) =>
  Effect.provide(body, SessionStore.layerSqlite({ path }), { local: true })

const fill = (to: number, from = 0) =>
  SessionStore.SessionStore.use((store) =>
    Effect.forEach(
      names.slice(from, to),
      (name) =>
        Effect.andThen(store.create(makeNewSession(name)), store.append(SessionId.make(name), [messageOf(name)])),
      { discard: true }
    )
  )

/** Runs statements on a database, without the store. */
const execute = (path: string, ...statements: ReadonlyArray<string>): void => {
  const database = new DatabaseSync(path)
  for (const statement of statements) database.exec(statement)
  database.close()
}

/** A database of 60 sessions, in one file. */
const filled = Effect.gen(function* () {
  const path = `${yield* temporaryDirectory}/state.db`
  yield* withStore(path, fill(60))
  execute(path, "PRAGMA wal_checkpoint(TRUNCATE)")
  assert.isFalse(existsSync(`${path}-wal`))
  return path
})

/** A database whose newest sessions are in its log only, as a process that was killed leaves it. */
const withLog = (count: number) =>
  Effect.gen(function* () {
    const directory = yield* temporaryDirectory
    const [from, path] = [`${directory}/open.db`, `${directory}/state.db`]
    yield* withStore(
      from,
      Effect.andThen(
        Effect.gen(function* () {
          const older = Math.max(0, count - 10)
          yield* fill(older)
          if (older > 0) execute(from, "PRAGMA wal_checkpoint(PASSIVE)")
          yield* fill(count, older)
        }),
        Effect.sync(() => {
          for (const end of ["", "-wal"]) copyFileSync(`${from}${end}`, `${path}${end}`)
        })
      )
    )
    return path
  })

const overwrite = (path: string, from: number, to: number): void => {
  const bytes = readFileSync(path)
  bytes.fill(0xa5, from, to)
  writeFileSync(path, bytes)
}

const repair = (path: string, checkOnly = false) =>
  Effect.provide(SessionMaintenance.repair(path, { checkOnly }), NodeServices.layer)

/** Sessions whose message is there as it was written. */
const savedNames = (path: string) =>
  withStore(
    path,
    SessionStore.SessionStore.use((store) =>
      Effect.map(
        Effect.forEach(names, (name) => Effect.orElseSucceed(store.messages(SessionId.make(name)), () => [])),
        (all) =>
          names.filter((name, index) => {
            const content = all[index]?.[0]?.content[0]
            return typeof content === "object" && content.type === "text" && content.text === textOf(name)
          })
      )
    )
  )

const files = (path: string) => {
  const directory = path.slice(0, path.lastIndexOf("/"))
  return readdirSync(directory).map((name) => [name, readFileSync(`${directory}/${name}`)] as const)
}

/** Repairs a damaged database: a check changes nothing, the damaged file is kept, and what was made is sound. */
const repairDamaged = Effect.fnUntraced(function* (path: string) {
  const before = readFileSync(path)
  const all = files(path)
  const checked = yield* repair(path, true)
  assert.isAbove(checked.problems.length, 0)
  assert.deepStrictEqual(files(path), all)
  const report = yield* repair(path)
  assert.deepStrictEqual(readFileSync(report.keptAt ?? ""), before)
  assert.deepStrictEqual((yield* repair(path)).problems, [])
  assert.deepStrictEqual(
    files(path).filter(([name]) => name.includes("repaired") || name.includes("readable")),
    []
  )
  return report
})

describe("SqliteRepair", () => {
  for (const size of [16, 100]) {
    it.effect(`saves everything when the first ${size} bytes are overwritten`, () =>
      Effect.gen(function* () {
        const path = yield* filled
        overwrite(path, 0, size)
        const { done, problems } = yield* repairDamaged(path)
        assert.deepStrictEqual(problems, ["the file is damaged: its header is damaged"])
        assert.deepStrictEqual(done, ["wrote everything to a new file (60 sessions, 60 messages)"])
        assert.deepStrictEqual(yield* savedNames(path), names)
      })
    )

    it.effect(`saves what only the log holds when the first ${size} bytes are overwritten`, () =>
      Effect.gen(function* () {
        const path = yield* withLog(60)
        overwrite(path, 0, size)
        yield* repairDamaged(path)
        assert.deepStrictEqual(yield* savedNames(path), names)
      })
    )
  }

  it.effect("finds the size of the pages without a header", () =>
    Effect.gen(function* () {
      for (const size of [1024, 16_384]) {
        const path = yield* filled
        execute(path, "PRAGMA journal_mode = DELETE", `PRAGMA page_size = ${size}`, "VACUUM")
        overwrite(path, 0, 100)
        yield* repairDamaged(path)
        assert.deepStrictEqual(yield* savedNames(path), names)
      }
    })
  )

  it.effect("saves what a cut file still holds, and reports what is lost", () =>
    Effect.gen(function* () {
      const path = yield* filled
      const { length } = readFileSync(path)
      // In the middle of a page.
      truncateSync(path, Math.floor(length / 2) + 1234)
      const { done, problems } = yield* repairDamaged(path)
      assert.strictEqual(problems[0], "the file is damaged: it is cut off")
      const saved = yield* savedNames(path)
      assert.isAbove(saved.length, 20)
      assert.isBelow(saved.length, 60)
      assert.match(
        done[0] ?? "",
        /^wrote what is readable to a new file \(\d+ sessions, \d+ messages(; lost: \d+ messages?)?\); incomplete: .*messages/
      )
    })
  )

  it.effect("saves every part between damaged pages", () =>
    Effect.gen(function* () {
      const path = yield* filled
      const bytes = readFileSync(path)
      const database = new DatabaseSync(path)
      const rows = database.prepare("SELECT rowid AS row, length(envelope) AS size FROM messages").all()
      database.close()
      assert.strictEqual(rows.length, 60)
      // Pages that hold the text of some messages, far from each other.
      const damaged = ["s10 words", "s25 words", "s40 words"]
      for (const text of damaged) {
        for (let at = bytes.indexOf(text); at >= 0; at = bytes.indexOf(text, at + 1)) {
          const page = Math.floor(at / 4096)
          bytes.fill(0xa5, page * 4096, (page + 1) * 4096)
        }
      }
      writeFileSync(path, bytes)
      const { done } = yield* repair(path)
      assert.match(done[0] ?? "", /lost: \d+ messages/)
      const saved = yield* savedNames(path)
      assert.isAbove(saved.length, 45)
      assert.includeMembers([...saved], ["s0", "s15", "s20", "s30", "s35", "s59"])
    })
  )

  it.effect("makes a new database from an empty file, and says so", () =>
    Effect.gen(function* () {
      const path = yield* filled
      truncateSync(path, 0)
      assert.deepStrictEqual((yield* repair(path, true)).problems, ["the file is damaged: it is empty"])
      assert.deepStrictEqual((yield* repair(path)).done, ["made a new database: nothing of the old one can be saved"])
      assert.deepStrictEqual((yield* repair(path)).problems, [])
    })
  )

  it.effect("saves what the log of an empty file holds", () =>
    Effect.gen(function* () {
      const path = yield* withLog(10)
      truncateSync(path, 0)
      const log = readFileSync(`${path}-wal`)
      const { keptAt } = yield* repairDamaged(path)
      assert.deepStrictEqual(readFileSync(`${keptAt}-wal`), log)
      assert.deepStrictEqual(yield* savedNames(path), names.slice(0, 10))
    })
  )

  it.effect("keeps a damaged log, and what the file has without it", () =>
    Effect.gen(function* () {
      const path = yield* withLog(60)
      overwrite(`${path}-wal`, 0, 32)
      const log = readFileSync(`${path}-wal`)
      const checked = yield* repair(path, true)
      assert.deepStrictEqual(
        checked.problems[0],
        "the log beside the file is damaged: the changes that only it contained are lost"
      )
      const { done } = yield* repair(path)
      const kept = /^kept a copy of the damaged log as (.*)$/.exec(done[0] ?? "")?.[1] ?? ""
      assert.deepStrictEqual(readFileSync(kept), log)
      assert.deepStrictEqual((yield* repair(path)).problems, [])
    })
  )

  it.effect("reads a log up to the first page that is damaged", () =>
    Effect.gen(function* () {
      const path = yield* withLog(60)
      const { length } = readFileSync(`${path}-wal`)
      overwrite(`${path}-wal`, length - 2000, length - 1000)
      overwrite(path, 0, 100)
      yield* repairDamaged(path)
      assert.isAbove((yield* savedNames(path)).length, 50)
    })
  )

  it.effect("refuses what never was a session database, and leaves it alone", () =>
    Effect.gen(function* () {
      const path = `${yield* temporaryDirectory}/state.db`
      writeFileSync(path, "sessions:\n".repeat(1000))
      const before = files(path)
      assert.include((yield* Effect.flip(repair(path))).message, "holds nothing that can be saved: move it away")
      assert.deepStrictEqual(files(path), before)
    })
  )
})
