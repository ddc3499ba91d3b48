// `hermes tenants remove` as a process over data of real turns: killed after each of its steps and at moments by
// chance, and repeated; and while the tenant's run is in flight. The other tenant loses nothing.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import type { ChildProcess } from "node:child_process"
import { cpSync, existsSync, readdirSync, readFileSync } from "node:fs"
import type { ServerResponse } from "node:http"
import { join } from "node:path"
import { DatabaseSync } from "node:sqlite"
import { formatTenantFolder } from "../../../src/store/TenantScope.ts"
import { hermes as runHermes, machine } from "../../support/hermes.ts"
import { answerCall, answerText, type KeyedCall, keyedServer } from "../../support/keyedServer.ts"
import { serve } from "../../support/servedProgram.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const key = "shared-key-0123456789abcdef"
const clients = { acme: "alice-of-acme-0123456789", zeta: "bob-of-zeta-0123456789" }

type Name = keyof typeof clients

const makeEnv = (home: string) => ({
  ALICE: clients.acme,
  BOB: clients.zeta,
  HERMES_NEMO_RELAY_ATOF_ENABLED: "1",
  HERMES_NEMO_RELAY_ATOF_OUTPUT_DIRECTORY: join(home, "exports"),
  HERMES_NEMO_RELAY_ATIF_ENABLED: "1",
  HERMES_NEMO_RELAY_ATIF_OUTPUT_DIRECTORY: join(home, "exports")
})

const write = (url: string): string => `
model: { provider: custom, default: m, base_url: ${url}, api_key: ${key} }
approvals: { mode: "off" }
plugins: { enabled: [observability/trace] }
tenants:
  acme: {}
  zeta: {}
server:
  keys:
    alice: { key_env: ALICE, tenant: acme }
    bob: { key_env: BOB, tenant: zeta }
`

/** Pictures of both tenants, which differ in their last byte. */
const pictures = Object.fromEntries(
  (["acme", "zeta"] as const).map((name) => {
    const pixel = "iVBORw0KGgoAAAANSUhEUgAAAAEAAAABCAYAAAAfFcSJAAAADUlEQVR42mNk+M9QDwADhgGAWjR9awAAAABJRU5ErkJggg=="
    const bytes = Buffer.concat([Buffer.from(pixel, "base64"), Buffer.from(name)])
    return [name, `data:image/png;base64,${bytes.toString("base64")}`]
  })
)

/** Answers with calls that store the word of the tenant in each place, and then with the word. */
const answer = (call: KeyedCall, response: ServerResponse): void => {
  const word = /harbour-(?:acme|zeta)/u.exec(call.body)?.[0] ?? "none"
  const results = call.body.match(/"role":"tool"/gu)?.length ?? 0
  const steps: ReadonlyArray<readonly [string, object]> = [
    ["write_file", { path: "note.txt", content: `${word}\n` }],
    ["memory", { action: "add", target: "memory", content: `The ${word} is blue` }],
    ["terminal", { command: `yes ${word} | head -n 20000` }],
    ["delegate_task", { goal: `Only say ${word}` }]
  ]
  const step = call.body.includes("Use tools") ? steps[results] : undefined
  if (step === undefined) answerText(call, response, `It is ${word}`)
  else answerCall(call, response, step[0], step[1])
}

const makeRequest = (name: Name, text: string) => ({
  messages: [
    {
      role: "user",
      content: [
        { type: "text", text: `${text} harbour-${name}` },
        { type: "image_url", image_url: { url: pictures[name] } }
      ]
    }
  ]
})

/** Reads all rows of a database that have a word. Indexes for search are left out. */
const findRows = (path: string, word: string): ReadonlyArray<string> => {
  const database = new DatabaseSync(path, { readOnly: true })
  try {
    const tables = database.prepare("SELECT name FROM sqlite_master WHERE type = 'table'").all()
    return tables
      .map(({ name }) => String(name))
      .filter((name) => !/fts|search/u.test(name))
      .flatMap((name) =>
        database
          .prepare(`SELECT * FROM "${name}"`)
          .all()
          .map((row) => `${name} ${JSON.stringify(row)}`)
      )
      .filter((row) => row.includes(word))
  } finally {
    database.close()
  }
}

const isDatabase = (name: string): boolean => name.endsWith(".db")

/** Lists the data of a tenant below a home directory: rows of databases, and files with their words or names. */
const findData = (home: string, tenant: Name): ReadonlyArray<string> => {
  const names = readdirSync(home, { recursive: true, withFileTypes: true })
  const picture = Buffer.from(pictures[tenant]?.split(",")[1] ?? "", "base64")
  return names
    .filter((entry) => entry.isFile() && !/^config\.yaml$|\.db-(?:wal|shm)$/u.test(entry.name))
    .flatMap((entry) => {
      const path = join(entry.parentPath, entry.name)
      const name = path.slice(home.length)
      if (isDatabase(name)) return findRows(path, tenant).map((row) => `${name} ${row}`)
      const bytes = readFileSync(path)
      const isOwn = bytes.includes(tenant) || bytes.equals(picture) || path.includes(formatTenantFolder(tenant))
      return isOwn ? [name] : []
    })
    .toSorted()
}

/** Rows that change with time, such as the next run of a job, are compared by their place. */
const listPlaces = (data: ReadonlyArray<string>): ReadonlyArray<string> =>
  data.map((text) => text.split(" ").slice(0, 2).join(" "))

/** Makes a home directory with data of both tenants in each place. */
const makeHome = Effect.gen(function* () {
  const model = yield* keyedServer({ [key]: answer })
  const { hermes, home, keep } = yield* machine
  const env = makeEnv(home)
  keep("config.yaml", write(model.url))
  for (const name of ["acme", "zeta"]) {
    const { code, stderr } = yield* hermes(["cron", "create", "every 2h", `harbour-${name}`, "--tenant", name], { env })
    assert.strictEqual(code, 0, stderr)
  }
  const { post, stop } = yield* serve(hermes, env)
  const requests = (["acme", "zeta"] as const).flatMap((name) =>
    [makeRequest(name, "Use tools about"), ...Array.from({ length: 8 }, () => makeRequest(name, "Say"))].map(
      (body) => () => post("/chat/completions", clients[name], body)
    )
  )
  for (const request of requests) {
    const { status, text } = yield* Effect.promise(request)
    assert.strictEqual(status, 200, text)
  }
  const { code, stderr } = yield* stop
  assert.strictEqual(code, 0, stderr)
  return home
})

/** The state of each step of a removal, in their order. */
const readSteps = (home: string): ReadonlyArray<() => string> => {
  const exports = join(home, "exports")
  const countRows = (file: string, table: string) => () => {
    const database = new DatabaseSync(join(home, file), { readOnly: true, timeout: 5_000 })
    try {
      return String(database.prepare(`SELECT count(*) AS count FROM "${table}"`).get()?.["count"])
    } finally {
      database.close()
    }
  }
  const exists = (place: string) => () => String(existsSync(join(home, place, "tenants", formatTenantFolder("acme"))))
  return [
    () => readFileSync(join(home, "cron", "jobs.json"), "utf8"),
    () => String(readdirSync(exports).length),
    () => readFileSync(join(exports, "hermes-atof.jsonl"), "utf8"),
    countRows("state.db", "sessions"),
    exists("memories"),
    exists("cache/results"),
    exists("changes/contents"),
    exists("."),
    countRows("state.tenants.db", "tenant_usage")
  ]
}

/** A generator of numbers below 1; the same seed returns the same ones. */
const makeRandom = (seed: number) => {
  let state = seed
  return (): number => {
    state = (Math.imul(state, 1_664_525) + 1_013_904_223) >>> 0
    return state / 4_294_967_296
  }
}

describe("hermes tenants remove, as a process", () => {
  const seed = 20_261_130

  it.live(`is repeated after a kill after each step, and at moments by chance (seed ${seed})`, () =>
    Effect.gen(function* () {
      const template = yield* makeHome
      const expected = listPlaces(findData(template, "zeta"))
      const before = findData(template, "acme")
      const random = makeRandom(seed)
      let killed = 0
      const stepCount = readSteps(template).length
      for (let round = 0; round < stepCount + 4; round++) {
        const home = join(yield* temporaryDirectory, ".hermes")
        cpSync(template, home, { recursive: true })
        const steps = readSteps(home)
        const states = steps.map((read) => read())
        // After a change of this step, or after as many looks since the first change of any.
        let looks = round < stepCount ? Number.POSITIVE_INFINITY : Math.floor(random() * 40)
        let child: ChildProcess | undefined
        const watch = (): void => {
          if (child === undefined || child.exitCode !== null || child.signalCode !== null) return
          const isChanged = (index: number): boolean => steps[index]?.() !== states[index]
          const isBegun = round < stepCount ? isChanged(round) : isChanged(0)
          if (isBegun && (round < stepCount || looks-- <= 0)) child.kill("SIGKILL")
          else setImmediate(watch)
        }
        const remove = (onStart: (started: ChildProcess) => void) =>
          runHermes(["tenants", "remove", "acme", "--yes"], {
            home,
            cwd: join(home, ".."),
            env: makeEnv(home),
            onStart
          })
        const { signal, stderr } = yield* remove((started) => {
          child = started
          watch()
        })
        if (signal === "SIGKILL") {
          killed++
          const ended = yield* remove(() => undefined)
          assert.strictEqual(ended.code, 0, `round ${round}: ${ended.stderr}`)
        } else assert.strictEqual(stderr, "", `round ${round}`)
        assert.deepStrictEqual(findData(home, "acme"), [], `round ${round}`)
        assert.deepStrictEqual(listPlaces(findData(home, "zeta")), expected, `round ${round}`)
      }
      assert.isAbove(before.length, 20)
      assert.isAtLeast(killed, stepCount / 2)
    }).pipe(Effect.scoped)
  )

  it.live("ends a run in flight first, and the server stores nothing more when it stops", () =>
    Effect.gen(function* () {
      const held = new Map<string, () => void>()
      const model = yield* keyedServer({
        [key]: (call, response) => {
          const name = /hold harbour-(\w+)/u.exec(call.body)?.[1]
          if (name === undefined || !call.stream) answer(call, response)
          else held.set(name, () => answer(call, response))
        }
      })
      const { hermes, home, keep } = yield* machine
      const env = makeEnv(home)
      keep("config.yaml", write(model.url))
      const { post, stop } = yield* serve(hermes, env)
      // An earlier session of the server, which is idle.
      for (const name of ["acme", "zeta"] as const)
        yield* Effect.promise(() => post("/chat/completions", clients[name], makeRequest(name, "Use tools about")))
      const ask = (name: Name) => post("/chat/completions", clients[name], makeRequest(name, "hold"))
      const [ofAcme, ofZeta] = [ask("acme"), ask("zeta")]
      while (held.size < 2) yield* Effect.sleep("10 millis")
      const removed = yield* hermes(["tenants", "remove", "acme", "--yes"], { env })
      assert.strictEqual(removed.code, 0, removed.stderr)
      assert.include(removed.stdout, "1 run in flight")
      yield* Effect.promise(() => ofAcme)
      held.get("zeta")?.()
      assert.include((yield* Effect.promise(() => ofZeta)).text, "It is harbour-zeta")
      yield* stop
      assert.deepStrictEqual(findData(home, "acme"), [])
      assert.isAbove(findData(home, "zeta").length, 20)
    }).pipe(Effect.scoped)
  )
})
