// One tool of a toolset, called as the runtime calls it.
import * as Effect from "effect/Effect"
import * as Predicate from "effect/Predicate"
import { SessionId, TaskId, TurnId } from "../../src/base/domain/Ids.ts"
import { ToolContext } from "../../src/tools/ToolContext.ts"
import type { Toolset } from "../../src/tools/Toolset.ts"

/** What came back, as a record that a test may ask anything. */
export interface Called {
  readonly isFailure: boolean
  readonly body: Record<string, unknown>
  readonly text: string
}

export const callTool = <E, R>(
  toolset: Toolset<E, R>,
  name: string,
  params: unknown,
  context: { readonly session?: string; readonly cwd?: string } = {}
) =>
  Effect.scoped(
    Effect.gen(function* () {
      const bound = (yield* toolset.bind).find(({ tool }) => tool.name === name)
      if (bound === undefined) return yield* Effect.die(`no tool ${name}`)
      const session = SessionId.make(context.session ?? "s1")
      const { isFailure, output } = yield* bound
        .run(params, "call_1")
        .pipe(
          Effect.provideService(ToolContext, {
            sessionId: session,
            turnId: TurnId.make("t1"),
            taskId: TaskId.make(session),
            cwd: context.cwd ?? "/"
          })
        )
      const called: Called = {
        isFailure,
        body: Predicate.isObject(output) ? { ...output } : {},
        text: JSON.stringify(output)
      }
      return called
    })
  )
