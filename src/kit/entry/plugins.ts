/** Plugin definitions, and the plugins of a runtime. */
export * as Plugin from "../../agent/plugin/Plugin.ts"
export * as PluginError from "../../agent/plugin/PluginError.ts"
export * as Plugins from "../../agent/plugin/Plugins.ts"
