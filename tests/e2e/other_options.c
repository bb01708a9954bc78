/* other_options.c: for every setting of the library a value that is not its default, one line "NAME VALUE" each; a
 * flag's value is on or off. Settings that need another one beside them get it on the same line, "NAME VALUE NAME
 * VALUE".
 */
#include <lockstep/options.h>

#include <stdio.h>
#include <string.h>

static const char *const flags[] = {"on", "off", NULL};
static const char *const values[] = {"none", "3",   "2",     "0.25", "16",   "8",       "adamw",  "ref", "constant",
                                     "3,5",  "low", "float", "avx2", "bf16", "local:2", "*=x0.5", NULL};
static const char *const patterns[] = {"*.bias", NULL};
static const char *const companions[][2] = {{NULL, NULL}, {"validation", "0.25"}, {"init", "first.safetensors"}};

static int is_good(const char *name, const char *value, const char *const beside[2])
{
    struct ls_train_options o;
    ls_train_options_default(&o);
    o.model = "softmax";
    o.data = "digits";
    if (ls_options_set(&o, name, value) != LS_OK) return 0;
    if (beside[0] && ls_options_set(&o, beside[0], beside[1]) != LS_OK) return 0;
    return ls_options_check(&o) == LS_OK;
}

static void print_other(const struct ls_option_info *info)
{
    const char *const *texts = strcmp(info->value, "on|off") == 0 ? flags : values;
    if (strcmp(info->name, "validation") == 0) texts++; /* no folder of that name */
    if (strcmp(info->name, "init") == 0) {
        puts("init first.safetensors");
        return;
    }
    if (strcmp(info->name, "freeze") == 0 || strcmp(info->name, "init-skip") == 0) texts = patterns;
    for (size_t b = 0; b < sizeof companions / sizeof *companions; b++)
        for (size_t i = 0; texts[i]; i++) {
            if (strcmp(texts[i], info->default_value) == 0 || !is_good(info->name, texts[i], companions[b])) continue;
            printf("%s %s", info->name, texts[i]);
            if (companions[b][0]) printf(" %s %s", companions[b][0], companions[b][1]);
            putchar('\n');
            return;
        }
    printf("%s ?\n", info->name);
}

int main(void)
{
    struct ls_option_info info;
    for (int i = 0; ls_options_describe(i, &info); i++)
        if (*info.group) print_other(&info);
    return 0;
}
