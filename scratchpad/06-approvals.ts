import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import * as Schema from "effect/Schema"
import * as Tool from "effect/ai/Tool"
import * as Toolkit from "effect/ai/Toolkit"
import { Agent, Approvals, Approver, type RunEvent, Runtime, Scripted, Toolset } from "../src/index.ts"
import { ApprovalJudge } from "../src/kit/entry/approvals.ts"

const Publish = Tool.make("publish", {
  description: "Publishes a version",
  parameters: Schema.Struct({ version: Schema.String }),
  success: Schema.String
}).annotate(Tool.Destructive, true)

const toolkit = Toolkit.make(Publish)
const publishing = Toolset.make(
  "publishing",
  toolkit,
  toolkit.toLayer({ publish: ({ version }) => Effect.succeed(`${version} is out`) })
)

// Somebody who answers later: here at once, in an application by a message or a page.
const desk: Approver.PendingQueue = Approver.makePendingQueue({
  surface: "gateway",
  notify: (question) => Effect.forkDetach(desk.resolve(question.session_id, { choice: "once" }, "oldest"))
})

const deciders = {
  nobody: Approvals.layerDeny(),
  "a list": Approvals.layerAllowList(["publish"]),
  "a function": Approvals.layerCallback(({ command }) => Effect.succeed(command.includes("2.0") ? "once" : "deny")),
  "a person": Approvals.layerPrompt().pipe(
    Layer.provide(
      Layer.succeed(Approver.ApprovalPrompt, {
        ask: () => Effect.succeed({ choice: "deny", reason: "not on a Friday" })
      })
    )
  ),
  "a model": Approvals.layerSmart().pipe(
    Layer.provide(Layer.succeed(ApprovalJudge.ApprovalJudge, { judge: () => Effect.succeed("approve" as const) }))
  ),
  "a messenger": Approvals.layerPending(desk)
}

for (const [who, approvals] of Object.entries(deciders)) {
  const model = Scripted.layer([
    Scripted.complete({ toolCalls: [{ name: "publish", params: { version: "2.0" } }] }),
    Scripted.complete("done")
  ])
  let published = "blocked"
  const onEvent = (events: ReadonlyArray<RunEvent.RunEvent>) =>
    Effect.sync(() => {
      for (const event of events) if (event._tag === "ToolFinished") published = event.status
    })
  await Agent.run({ prompt: "Publish 2.0", onEvent }).pipe(
    Effect.provide(Runtime.layer({ provider: model, tools: [publishing], approvals })),
    Effect.runPromise
  )
  console.log(`${who}: ${published}`)
}
