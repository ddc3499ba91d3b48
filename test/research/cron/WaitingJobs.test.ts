// Jobs whose run waits for an answer: the job says so, does not run again meanwhile, and continues with the answer.
import * as NodeServices from "@effect/platform-node/NodeServices"
import { assert, describe, it } from "@effect/vitest"
import * as Effect from "effect/Effect"
import * as Fiber from "effect/Fiber"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import * as TestClock from "effect/testing/TestClock"
import { join } from "node:path"
import { takeAnswers } from "../../../src/agent/Resumption.ts"
import { SessionId } from "../../../src/base/domain/Ids.ts"
import { Agent, Runtime, Scripted, SessionStore, Toolset } from "../../../src/index.ts"
import * as JobAgent from "../../../src/research/cron/JobAgent.ts"
import { Delivery, type DeliveredResult } from "../../../src/research/cron/JobRun.ts"
import * as JobTick from "../../../src/research/cron/JobTick.ts"
import * as CronJobs from "../../../src/tools/cron/CronJobs.ts"
import { describeState, formatSkipped, formatWaiting, toRecord } from "../../../src/tools/cron/Job.ts"
import { temporaryDirectory } from "../../support/temporaryDirectory.ts"

const minutes = (count: number) => TestClock.adjust(count * 60_000)
const hourly = { name: "bill", prompt: "pay the bill", schedule: "every 1h", timezone: "UTC" }

const toolkit = Toolkit.make(
  Tool.make("pay", { parameters: Schema.Struct({}), success: Schema.String, needsApproval: true })
)
const pays = { toolCalls: [{ name: "pay", params: {}, id: "c" }] }

interface World {
  readonly jobs: CronJobs.Service
  readonly settings: JobTick.Settings
  readonly effects: ReadonlyArray<string>
  readonly shown: ReadonlyArray<DeliveredResult>
  /** Answers the question of the session in which the job waits, as another process does. */
  readonly answer: (choice: "deny" | "once") => Effect.Effect<string, unknown>
}

/** Jobs in memory with an agent whose model gives one answer after the other. A question expires after a day. */
const world = <A, E>(
  turns: ReadonlyArray<Parameters<typeof Scripted.complete>[0]>,
  work: (
    world: World
  ) => Effect.Effect<
    A,
    E,
    Agent.Agent | CronJobs.CronJobs | JobAgent.JobAgent | NodeServices.NodeServices | SessionStore.SessionStore
  >
) =>
  Effect.gen(function* () {
    const home = yield* temporaryDirectory
    const effects: Array<string> = []
    const shown: Array<DeliveredResult> = []
    const tools = toolkit.toLayer({ pay: () => Effect.sync(() => (effects.push("pay"), "paid")) })
    const runtime = Runtime.layer({
      provider: Scripted.layer(turns.map((turn) => Scripted.complete(turn))),
      tools: [Toolset.make("office", toolkit, tools)],
      questions: { unanswered: "suspend", expiresAfter: "1 day" }
    })
    const settings: JobTick.Settings = {
      places: { scripts: join(home, "scripts"), cron: join(home, "cron") },
      approvals: "deny",
      preflight: true,
      maySchedule: false,
      scriptTimeoutSeconds: 10,
      runTimeoutSeconds: 3600,
      maxParallel: undefined
    }
    const services = JobAgent.layer({ toolsets: ["office"] }).pipe(
      Layer.provideMerge(Layer.mergeAll(runtime, CronJobs.layerMemory, NodeServices.layer))
    )
    return yield* Effect.gen(function* () {
      const jobs = yield* CronJobs.CronJobs
      const store = yield* SessionStore.SessionStore
      const answer = Effect.fnUntraced(function* (choice: "deny" | "once") {
        const { waiting } = yield* jobs.find("bill")
        const sessionId = SessionId.make(waiting?.session_id ?? "")
        const [asked] = yield* store.listQuestions({ sessionId })
        yield* takeAnswers(store, sessionId, {
          answers: [{ questionId: asked?.question.id ?? "", answer: { choice } }]
        })
        return sessionId
      })
      return yield* work({ jobs, settings, effects, shown, answer })
    }).pipe(
      Effect.provide(services),
      Effect.provideService(Delivery, (one) => Effect.sync(() => void shown.push(one)))
    )
  })

describe("a job whose run waits", () => {
  it.effect("says how to answer, skips its next times, and continues with the answer once", () =>
    world([pays, "It is paid.", "Nothing to pay."], ({ answer, effects, jobs, settings, shown }) =>
      Effect.gen(function* () {
        yield* jobs.create(hourly)
        yield* minutes(60)
        const [first] = yield* JobTick.runOnce(settings)
        assert.deepInclude(first, { status: "waiting", error: undefined })
        const waits = yield* jobs.find("bill")
        const sessionId = waits.waiting?.session_id ?? ""
        assert.deepStrictEqual(
          [describeState(waits), waits.runs, waits.failures, waits.running, waits.last_session_id],
          ["waiting", 0, 0, null, sessionId]
        )
        assert.include(formatWaiting(waits), `\`hermes sessions answer ${sessionId} QUESTION yes|no|JSON\``)
        assert.deepInclude(toRecord(waits).waiting, { session_id: sessionId, since: "1970-01-01T01:00:00.000Z" })
        assert.deepStrictEqual(
          shown.map(({ isFailure, output }) => [isFailure, output]),
          [[false, undefined]]
        )
        assert.include(shown[0]?.text, `hermes sessions answer ${sessionId}`)

        for (const hour of [1, 2]) {
          yield* minutes(60)
          assert.isEmpty(yield* JobTick.runOnce(settings))
          const { missed, next_run_at, skipped } = yield* jobs.find("bill")
          assert.deepStrictEqual([missed, skipped?.count], [0, hour])
          assert.strictEqual(next_run_at, `1970-01-01T0${hour + 2}:00:00.000Z`)
        }
        const skipping = yield* jobs.find("bill")
        assert.match(
          formatSkipped(skipping) ?? "",
          /^skipped 2, last 1970-01-01T03:00.*: a run waited for an answer in /
        )
        assert.include(formatSkipped(skipping), sessionId)
        assert.isEmpty(effects)

        yield* answer("once")
        const [rest] = yield* JobTick.runOnce(settings)
        assert.strictEqual(rest?.status, "ok")
        assert.isEmpty(yield* JobTick.runOnce(settings))
        assert.deepStrictEqual(effects, ["pay"])
        assert.strictEqual(shown.at(-1)?.text, "It is paid.")
        const done = yield* jobs.find("bill")
        assert.deepStrictEqual(
          [describeState(done), done.waiting, done.runs, done.last_status, done.last_session_id],
          ["scheduled", undefined, 1, "ok", sessionId]
        )
        yield* minutes(60)
        assert.strictEqual((yield* JobTick.runOnce(settings))[0]?.status, "ok")
        assert.strictEqual(shown.at(-1)?.text, "Nothing to pay.")
      })
    )
  )

  it.effect("continues in a scheduler that runs, and skips the times until then", () =>
    world([pays, "It is paid.", "Nothing to pay."], ({ answer, effects, jobs, settings, shown }) =>
      Effect.gen(function* () {
        yield* jobs.create({ ...hourly, schedule: "every 1m" })
        const ticker = yield* Effect.forkChild(JobTick.runForever({ ...settings, maxParallel: 1 }, Effect.void))
        const isShown = (count: number) =>
          Effect.gen(function* () {
            while (shown.length < count) yield* Effect.promise(() => new Promise((resolve) => setImmediate(resolve)))
          })
        yield* minutes(1)
        yield* isShown(1)
        yield* minutes(3)
        assert.lengthOf(shown, 1)
        assert.strictEqual((yield* jobs.find("bill")).skipped?.count, 3)
        yield* answer("once")
        yield* minutes(1)
        yield* isShown(2)
        assert.deepStrictEqual([shown[1]?.text, effects], ["It is paid.", ["pay"]])
        yield* minutes(1)
        yield* isShown(3)
        assert.strictEqual(shown[2]?.text, "Nothing to pay.")
        yield* Fiber.interrupt(ticker)
      })
    )
  )

  it.effect("continues without the effect after a denial, and after its question expired", () =>
    Effect.forEach(["deny", "expire"] as const, (end) =>
      world([pays, "It is not paid.", "Next."], ({ answer, effects, jobs, settings }) =>
        Effect.gen(function* () {
          yield* jobs.create(hourly)
          yield* minutes(60)
          yield* JobTick.runOnce(settings)
          if (end === "deny") yield* answer("deny")
          else yield* minutes(24 * 60)
          assert.strictEqual((yield* JobTick.runOnce(settings))[0]?.status, "ok")
          assert.isEmpty(effects)
          assert.isUndefined((yield* jobs.find("bill")).waiting)
          yield* minutes(60)
          assert.lengthOf(yield* JobTick.runOnce(settings), 1)
        })
      )
    )
  )

  it.effect("is not done before its run is, and is not run by request meanwhile", () =>
    world([pays, "It is paid."], ({ answer, effects, jobs, settings }) =>
      Effect.gen(function* () {
        yield* jobs.create({ ...hourly, schedule: "1h" })
        yield* minutes(60)
        yield* JobTick.runOnce(settings)
        yield* minutes(60)
        assert.isEmpty(yield* JobTick.runOnce(settings))
        assert.strictEqual(describeState(yield* jobs.find("bill")), "waiting")
        for (const refused of [Effect.asVoid(JobTick.runNow("bill", settings)), Effect.asVoid(jobs.trigger("bill"))])
          assert.match((yield* Effect.flip(refused)).message, /^bill waits for an answer in session /)
        yield* jobs.pause("bill")
        yield* answer("once")
        assert.isEmpty(yield* JobTick.runOnce(settings))
        yield* jobs.resume("bill")
        assert.strictEqual((yield* JobTick.runNow("bill", settings)).status, "ok")
        const done = yield* jobs.find("bill")
        assert.deepStrictEqual([describeState(done), done.runs, effects], ["completed", 1, ["pay"]])
      })
    )
  )

  it.effect("takes the result of a run that was continued elsewhere, and fails if its session is deleted", () =>
    Effect.forEach(["continued", "deleted"] as const, (end) =>
      world([pays, "It is paid."], ({ answer, effects, jobs, settings, shown }) =>
        Effect.gen(function* () {
          yield* jobs.create(hourly)
          yield* minutes(60)
          yield* JobTick.runOnce(settings)
          const sessionId = yield* answer("once")
          if (end === "continued") yield* Agent.resume({ sessionId })
          else yield* (yield* Agent.Agent).deleteSession(sessionId)
          const [run] = yield* JobTick.runOnce(settings)
          assert.strictEqual(run?.status, end === "continued" ? "ok" : "error")
          assert.include(shown.at(-1)?.text, end === "continued" ? "It is paid." : "was deleted")
          assert.deepStrictEqual(effects, end === "continued" ? ["pay"] : [])
          assert.isUndefined((yield* jobs.find("bill")).waiting)
        })
      )
    )
  )
})
