// A process that works on sessions in Postgres, or in a SQLite file: `serve` is a server of the agent, `runner` executes
// durable runs. Its model follows from the last prompt. Its tool `slow` waits for the file `go`, and `pay` asks.
// Arguments: kind, address of the database or path of the file, directory, and optionally the operation of the inbox
// before which the process kills itself. Its first line is its address and key, or `ready`.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import * as Schedule from "effect/Schedule"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { appendFileSync, existsSync, writeSync } from "node:fs"
import { join } from "node:path"
import { Runtime, SessionStore, Toolset } from "../../src/index.ts"
import { Cluster } from "../../src/kit/entry/cluster.ts"
import { SessionInbox } from "../../src/kit/entry/sessions.ts"
import { Ask } from "../../src/kit/entry/tools.ts"
import { Provider } from "../../src/models/provider/Provider.ts"
import * as AgentServer from "../../src/serve/server/agent/AgentServer.ts"
import * as TerminalTools from "../../src/tools/builtin/TerminalTools.ts"
import * as Fake from "./fakeModel.ts"

const [kind = "", url = "", directory = "", fatal = ""] = process.argv.slice(2)

const trace = (line: string) => Effect.sync(() => appendFileSync(join(directory, "traces"), `${line}\n`))
const say = (line: string) => Effect.sync(() => writeSync(1, `${line}\n`))

const toolkit = Toolkit.make(
  Tool.make("slow", { parameters: Schema.Struct({}), success: Schema.String }),
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String })
)
const office = toolkit.toLayer({
  slow: () =>
    Effect.sync(() => existsSync(join(directory, "go"))).pipe(
      Effect.repeat({ until: (isThere) => isThere, schedule: Schedule.spaced("20 millis") }),
      Effect.as("slow result")
    ),
  pay: () =>
    Effect.orDie(
      Effect.gen(function* () {
        const euros = yield* Ask.form(Schema.Int, { title: "How much?" })
        yield* trace(`pay ${euros}`)
        return `paid ${euros}`
      })
    )
})

const fake = Fake.make()
const provider = Layer.succeed(Provider, {
  ...fake.provider,
  prepare: ({ messages, stream }) =>
    Effect.sync(() => {
      const rest = messages.slice(messages.findLastIndex(({ role }) => role === "user"))
      const results = rest.filter(({ role }) => role === "tool").map(({ content }) => JSON.stringify(content))
      return {
        model: "fake-1",
        messages: [],
        stream,
        prompt: JSON.stringify(rest[0]?.content ?? ""),
        said: results.length === 0 ? undefined : results.join(" ")
      }
    }),
  execute: ({ prompt, said }) =>
    Effect.sync(() => {
      const isAbout = (word: string): boolean => String(prompt).includes(word)
      if (said !== undefined) return Fake.textAnswer(`Done with ${String(said)}`)
      if (isAbout("slowly")) return Fake.callsAnswer(Fake.call("a", "slow", {}))
      if (isAbout("pay")) return Fake.callsAnswer(Fake.call("b", "pay", {}))
      if (isAbout("danger")) return Fake.callsAnswer(Fake.call("c", "terminal", { command: "rm -rf x" }))
      return Fake.textAnswer("Hello.")
    })
})

const killProcess = Effect.sync(() => process.kill(process.pid, "SIGKILL")).pipe(Effect.andThen(Effect.never))

/** An inbox whose process dies before an operation. */
const mortal = Layer.effect(
  SessionInbox.SessionInbox,
  SessionInbox.SessionInbox.useSync((inbox) => ({ ...inbox, ...(fatal === "" ? {} : { [fatal]: () => killProcess }) }))
)

const store = mortal.pipe(
  Layer.provideMerge(
    url.startsWith("/")
      ? SessionStore.layerSqlite({ path: url })
      : SessionStore.layerPostgres({ url: Redacted.make(url), connections: 5 })
  )
)
const agent = Runtime.layer({
  provider,
  store,
  cwd: directory,
  tools: [Toolset.make("office", toolkit, office), TerminalTools.toolset]
}).pipe(Layer.provideMerge(store))

const serve = Effect.gen(function* () {
  const { key, url } = yield* AgentServer.serve({ port: 0, cwd: directory })
  yield* say(`${url} ${key === undefined ? "" : Redacted.value(key)}`)
  return yield* Effect.never
}).pipe(Effect.scoped, Effect.provide(agent))

const runner = Effect.andThen(say("ready"), Effect.never).pipe(
  Effect.provide(Cluster.layerRunner({ url: Redacted.make(url), concurrency: 2 }).pipe(Layer.provide(agent)))
)

Effect.runFork(kind === "serve" ? Effect.orDie(Effect.provide(serve, NodeServices.layer)) : Effect.orDie(runner))
