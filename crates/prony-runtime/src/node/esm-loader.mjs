// Hooks ES modules where Node does that on a thread of its own (18.19 to 22.14).
import targets from './targets.cjs';

export async function load(url, context, nextLoad) {
  const loaded = await nextLoad(url, context);
  return (targets.isModule(loaded) && targets.facadeOf(url, loaded.source)) || loaded;
}
