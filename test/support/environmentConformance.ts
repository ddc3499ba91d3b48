// The rules of environments as tests of one environment, each in a directory of its own.
import { layer } from "@effect/vitest"
import type * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import type * as Scope from "effect/Scope"
import * as ChildProcesses from "../../src/base/platform/ChildProcesses.ts"
import * as EnvironmentRules from "../../src/kit/testing/EnvironmentRules.ts"

export { graceful } from "../../src/kit/testing/EnvironmentRules.ts"

export type MakeSubject = Effect.Effect<
  EnvironmentRules.TestedEnvironment,
  unknown,
  Scope.Scope | NodeServices.NodeServices
>

/** Runs the suite on an environment. `reason` says why this machine has none. */
export const conformance = (
  name: string,
  make: MakeSubject,
  {
    exception,
    reason
  }: { readonly reason?: string | undefined; readonly exception?: { readonly rule: string; readonly why: string } } = {}
): void => {
  const title = reason === undefined ? name : `${name} (not tested: ${reason})`
  layer(Layer.effect(EnvironmentRules.Subject, Effect.orDie(make)).pipe(Layer.provide(ChildProcesses.layer)), {
    excludeTestServices: true,
    timeout: 60_000
  })(title, (it) => {
    for (const { about, check, name: rule } of EnvironmentRules.rules) {
      const isException = rule === exception?.rule
      it.effect.skipIf(reason !== undefined || isException)(
        `${about} ${rule}${isException ? ` (exception: ${exception.why})` : ""}`,
        () => check
      )
    }
  })
}
