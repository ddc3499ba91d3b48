// Approvals by the key of a client: it answers for one call, and neither it nor settings let its commands out of the
// sandbox.
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Redacted from "effect/Redacted"
import { spawnSync } from "node:child_process"
import { existsSync, rmSync } from "node:fs"
import { join } from "node:path"
import { bubblewrap } from "../../../src/places/Bubblewrap.ts"
import * as Sandbox from "../../../src/places/Sandbox.ts"
import { readEvents, until, world } from "../../support/servedAgent.ts"
import { makeLastingDirectory, markAsRepository } from "../../support/temporaryDirectory.ts"

const keyOf = { owner: "0wner-key-of-this-test", alice: "al1ce-key-of-this-test" } as const
type Name = keyof typeof keyOf

const bwrapProbe = ["--unshare-user", "--unshare-net", "--unshare-pid", "--ro-bind", "/", "/", "--proc", "/proc"]
const stands = spawnSync("bwrap", [...bwrapProbe, "true"]).status === 0

const keys = { key: Redacted.make(keyOf.owner), keys: [{ name: "alice", key: Redacted.make(keyOf.alice) }] }

/** Clients of a served agent: each asks with its key. */
const clientsOf = ({ fetched, url }: Effect.Success<ReturnType<typeof world>>) => {
  const by = (name: Name) => ({ authorization: `Bearer ${keyOf[name]}` })
  const ask = (name: Name, path: string, json?: unknown) =>
    fetched(path, { headers: by(name), ...(json === undefined ? {} : { json }) })
  /** Sends a prompt in a session whose events are read, so that its questions wait. */
  const begin = async (name: Name, prompt: string) => {
    const {
      body: { id }
    } = await ask(name, "/v1/sessions", {})
    const reader = readEvents(`${url}/v1/sessions/${id}/events`, by(name))
    while (!/hermes_event_readers 1/u.test((await ask(name, "/metrics")).body));
    await ask(name, `/v1/sessions/${id}/messages`, { prompt })
    const find = (type: string) => reader.events.findLast(({ data }) => data["type"] === type)?.data
    return {
      reader,
      find,
      question: async () => {
        await until(() => reader.types().includes("approval_asked"))
        return find("approval_asked")
      },
      answer: async (choice: string) => {
        const question = String(find("approval_asked")?.["question_id"])
        const { body, status } = await ask(name, `/v1/sessions/${id}/questions/${question}`, { choice })
        return [status, body.error?.code]
      },
      ended: () => until(() => reader.types().includes("turn_ended"))
    }
  }
  return { ask, begin }
}

describe("approvals by a named key", () => {
  it.live("hold for one call: what lasts longer is for the owner", () =>
    Effect.gen(function* () {
      const remove = { calls: [["terminal", { command: "rm -rf build" }]] } as const
      const plays = { "remove it": [remove, { text: "Removed." }] } as const
      const { begin } = clientsOf(yield* world(plays, keys))
      yield* Effect.promise(async () => {
        const own = await begin("alice", "remove it")
        assert.deepStrictEqual((await own.question())?.["choices"], ["once", "deny"])
        assert.deepStrictEqual(await own.answer("session"), [403, "choice_unavailable"])
        assert.deepStrictEqual(await own.answer("always"), [403, "choice_unavailable"])
        assert.deepStrictEqual(await own.answer("once"), [204, undefined])
        await own.ended()
        await own.reader.stop()

        const owners = await begin("owner", "remove it")
        assert.include(JSON.stringify((await owners.question())?.["choices"]), "session")
        assert.deepStrictEqual(await owners.answer("session"), [204, undefined])
        await owners.ended()
        await owners.reader.stop()
      })
    })
  )

  it.live.skipIf(!stands)("let no command out of the sandbox: the owner is asked, a client is not", () =>
    Effect.gen(function* () {
      const home = yield* Effect.acquireRelease(
        Effect.sync(() => makeLastingDirectory("keys-")),
        (made) => Effect.sync(() => rmSync(made, { recursive: true, force: true }))
      )
      markAsRepository(join(home, "project"))
      const environment = Sandbox.layer({
        policy: "workspace-write",
        network: "none",
        home,
        writable: [],
        hidden: [],
        shown: [],
        hidesEnvFiles: true
      }).pipe(Layer.provide(Layer.succeed(Sandbox.Wall, bubblewrap)), Layer.orDie)
      const play = (name: string) =>
        [{ calls: [["terminal", { command: `touch ${home}/${name}` }]] }, { text: "Done." }] as const
      const served = yield* world(
        { "for the client": play("client"), "for the owner": play("owner") },
        keys,
        undefined,
        join(home, "project"),
        { environment }
      )
      const { begin } = clientsOf(served)
      yield* Effect.promise(async () => {
        const own = await begin("alice", "for the client")
        await own.ended()
        assert.notInclude(own.reader.types(), "approval_asked")
        assert.include(JSON.stringify(own.find("ToolFinished")), "Only the owner of this server")
        assert.isFalse(existsSync(join(home, "client")))
        await own.reader.stop()

        const owners = await begin("owner", "for the owner")
        assert.include(String((await owners.question())?.["description"]), "run outside of the sandbox")
        assert.deepStrictEqual(await owners.answer("once"), [204, undefined])
        await owners.ended()
        assert.isTrue(existsSync(join(home, "owner")))
        await owners.reader.stop()
      })
    })
  )
})
