/**
 * Presents the settings of a live session as ACP modes and options: the mode, the model, the reasoning effort.
 *
 * Source: Agent Client Protocol, session modes and session config options.
 */
import type { SessionConfigOption, SessionModeState } from "@agentclientprotocol/sdk/unstable"
import * as Effect from "effect/Effect"
import * as PermissionMode from "../../../base/config/PermissionMode.ts"
import type { ReasoningEffort } from "../../../base/domain/ModelCall.ts"
import type { Route } from "../../../base/domain/Route.ts"
import type { LiveSettings } from "../../host/HostEvent.ts"
import type { LiveSession } from "../../host/LiveSession.ts"
import { type AcpFailure, makeFailure } from "./AcpFailure.ts"

/** A model that the user can select for a session. */
export interface AcpModel {
  readonly id: string
  readonly name: string
  readonly description: string
  /** The model route. `undefined` leaves the choice to the router. */
  readonly route: Route | undefined
}

/** Modes and options that a new or loaded session reports. */
export interface SessionState {
  readonly modes: SessionModeState
  readonly configOptions: Array<SessionConfigOption>
}

/** Settings of one session. */
export interface AcpSettings {
  readonly state: Effect.Effect<SessionState>
  readonly listSettingOptions: (settings: LiveSettings) => Effect.Effect<Array<SessionConfigOption>>
  readonly setMode: (mode: string) => Effect.Effect<void, AcpFailure>
  readonly setOption: (option: string, value: string) => Effect.Effect<Array<SessionConfigOption>, AcpFailure>
}

/** Name and description of each mode. */
export const modeNames: Readonly<Record<PermissionMode.PermissionMode, readonly [name: string, description: string]>> =
  {
    plan: ["Plan", "Read only, then present a plan"],
    ask: ["Ask", "Edit the working tree, ask about commands"],
    edits: ["Edits", "As Ask, and edit files that something runs later"],
    auto: ["Auto", "A model rules on what is asked about"],
    yolo: ["Yolo", "Skip approvals; the deny lists still apply"]
  }

const efforts: ReadonlyArray<ReasoningEffort> = ["none", "minimal", "low", "medium", "high", "xhigh"]

/** Option value that leaves the choice to the settings. */
const byDefault = "default"

interface Choice {
  readonly value: string
  readonly name: string
  readonly description?: string
}

const makeSelectOption = (
  id: string,
  name: string,
  category: string,
  currentValue: string,
  options: ReadonlyArray<Choice>
): SessionConfigOption => ({ type: "select", id, name, category, currentValue, options: [...options] })

const describeModes = (mode: PermissionMode.PermissionMode): SessionModeState => ({
  currentModeId: mode,
  availableModes: PermissionMode.all.map((id) => ({ id, name: modeNames[id][0], description: modeNames[id][1] }))
})

/** Returns the options that a client shows: the mode, the model if models are available, and the reasoning effort. */
const describeOptions = (
  { effort, mode, route }: LiveSettings,
  models: ReadonlyArray<AcpModel>
): Array<SessionConfigOption> => {
  const { availableModes } = describeModes(mode)
  const current =
    models.find((one) => one.route?.model === route?.model && one.route?.provider === route?.provider) ?? models[0]
  return [
    makeSelectOption(
      "mode",
      "Mode",
      "mode",
      mode,
      availableModes.map(({ description, id, name }) => ({ value: id, name, description: description ?? "" }))
    ),
    ...(current === undefined
      ? []
      : [
          makeSelectOption(
            "model",
            "Model",
            "model",
            current.id,
            models.map(({ description, id, name }) => ({ value: id, name, description }))
          )
        ]),
    makeSelectOption(
      "effort",
      "Reasoning effort",
      "thought_level",
      effort ?? byDefault,
      [byDefault, ...efforts].map((value) => ({ value, name: value }))
    )
  ]
}

/** Makes the settings of a session. The list of models is loaded once. */
export const make = (live: LiveSession, models: Effect.Effect<ReadonlyArray<AcpModel>>): AcpSettings => {
  let known: ReadonlyArray<AcpModel> | undefined

  const listOptions: AcpSettings["listSettingOptions"] = (settings) =>
    Effect.map(
      Effect.suspend(() => (known === undefined ? models : Effect.succeed(known))),
      (found) => describeOptions(settings, (known ??= found))
    )

  const setMode: AcpSettings["setMode"] = Effect.fnUntraced(function* (wanted) {
    const mode = PermissionMode.all.find((one) => one === wanted)
    if (mode === undefined)
      return yield* makeFailure(
        "invalid_params",
        `Unknown mode "${wanted}". Use one of ${PermissionMode.all.join(", ")}.`
      )
    yield* Effect.mapError(live.setMode(mode), ({ message }) => makeFailure("invalid_params", message))
  })

  const changeOption = Effect.fnUntraced(function* (option: string, value: string) {
    switch (option) {
      case "mode":
        return yield* setMode(value)
      case "model": {
        const model = (known ??= yield* models).find(({ id }) => id === value)
        if (model === undefined) return yield* makeFailure("invalid_params", `Unknown model "${value}".`)
        return yield* live.setRoute(model.route)
      }
      case "effort": {
        const effort = efforts.find((one) => one === value)
        if (effort === undefined && value !== byDefault)
          return yield* makeFailure(
            "invalid_params",
            `Unknown effort "${value}". Use ${[byDefault, ...efforts].join(", ")}.`
          )
        return yield* live.setEffort(effort)
      }
      default:
        return yield* makeFailure(
          "invalid_params",
          `Unknown option "${option}". The options are mode, model and effort.`
        )
    }
  })

  return {
    state: Effect.flatMap(live.state, (settings) =>
      Effect.map(listOptions(settings), (configOptions) => ({ modes: describeModes(settings.mode), configOptions }))
    ),
    listSettingOptions: listOptions,
    setMode,
    setOption: (option, value) => Effect.andThen(changeOption(option, value), Effect.flatMap(live.state, listOptions))
  }
}
