// Services beside the agent of an interactive session: those that a test gives, or ones with nothing in them.
import * as NodeServices from "@effect/platform-node/NodeServices"
import * as Effect from "effect/Effect"
import * as Layer from "effect/Layer"
import { BackgroundWork } from "../../src/agent/BackgroundWork.ts"
import * as Children from "../../src/agent/Children.ts"
import type { History } from "../../src/program/cli/interactive/InputHistory.ts"
import * as CommandEnvironment from "../../src/places/CommandEnvironment.ts"
import { Auxiliary } from "../../src/models/routing/Auxiliary.ts"
import * as RunRecord from "../../src/store/RunRecord.ts"
import * as FileUndo from "../../src/tools/FileUndo.ts"
import { RouterStatus } from "../../src/models/routing/ModelRouter.ts"

export interface Given {
  readonly background?: BackgroundWork["Service"] | undefined
  readonly children?: Children.Service | undefined
  /** A side task that a test does not answer stays unanswered. */
  readonly auxiliary?: Pick<Auxiliary["Service"], "call" | "used"> | undefined
  readonly routes?: RouterStatus["Service"]["routes"] | undefined
}

const noWork: BackgroundWork["Service"] = {
  list: () => Effect.succeed([]),
  stop: () => Effect.succeed(undefined),
  stopAll: () => Effect.succeed([]),
  arrived: () => Effect.never,
  take: () => Effect.succeed([]),
  takeNotices: () => Effect.succeed([]),
  reviewed: () => Effect.void,
  settled: () => Effect.void
}

export const layer = ({ auxiliary, background, children, routes }: Given) =>
  Layer.mergeAll(
    FileUndo.layer.pipe(
      Layer.provideMerge(RunRecord.layerMemory()),
      Layer.provide(CommandEnvironment.layerLocal),
      Layer.provide(NodeServices.layer)
    ),
    Layer.succeed(BackgroundWork, background ?? noWork),
    Layer.succeed(Children.Children, children ?? Children.make()),
    Layer.succeed(Auxiliary, {
      call: () => Effect.never,
      used: Effect.succeed(new Map()),
      resolve: () => Effect.succeed(undefined),
      ...auxiliary
    }),
    routes === undefined ? Layer.empty : Layer.succeed(RouterStatus, { routes })
  )

/** A history that ends with the session. */
export const history = (): History => {
  const entries: Array<string> = []
  return {
    entries: () => entries,
    add: (text) =>
      Effect.sync(() => {
        if (text !== entries.at(-1)) entries.push(text)
      })
  }
}
