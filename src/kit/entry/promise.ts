/** The runtime for code without Effect. */
export {
  createHermes,
  fromLayer,
  type Hermes,
  type HermesInput,
  type HermesModel,
  type HermesOptions,
  type Listeners
} from "../promise/CreateHermes.ts"
export { HermesError, type Tag } from "../promise/HermesError.ts"
export { type HermesTool, tool, type ToolCall, type ToolOptions } from "../promise/StandardTool.ts"
